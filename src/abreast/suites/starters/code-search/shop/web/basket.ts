import { fetchProduct } from "./client";

export interface BasketLine {
  productNumber: string;
  quantity: number;
}

export class Basket {
  private readonly lines: BasketLine[] = [];

  addToBasket(productNumber: string, quantity: number): void {
    const known = this.lines.find((line) => line.productNumber === productNumber);
    if (known) {
      known.quantity += quantity;
    } else {
      this.lines.push({ productNumber, quantity });
    }
  }

  async describeLines(): Promise<string[]> {
    const products = await Promise.all(this.lines.map((line) => fetchProduct(line.productNumber)));
    return products.map((product, at) => `${this.lines[at].quantity} × ${product.title}`);
  }
}
