const RETRY_LIMIT = 3;

export async function fetchProduct(productNumber: string): Promise<{ title: string }> {
  for (let attempt = 1; ; attempt += 1) {
    const response = await fetch(`/products/${encodeURIComponent(productNumber)}`);
    if (response.ok) {
      return response.json();
    }
    if (attempt >= RETRY_LIMIT) {
      throw new Error(`product ${productNumber}: ${response.status}`);
    }
  }
}
