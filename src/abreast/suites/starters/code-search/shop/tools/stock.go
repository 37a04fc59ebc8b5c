package main

import "fmt"

// Shelf is one shelf in the warehouse.
type Shelf struct {
	ProductNumber string
	Pieces        int
}

// needsReorder reports whether a shelf is nearly empty.
func needsReorder(shelf Shelf, reorderBelow int) bool {
	return shelf.Pieces < reorderBelow
}

func reorderList(shelves []Shelf, reorderBelow int) []string {
	var numbers []string
	for _, shelf := range shelves {
		if needsReorder(shelf, reorderBelow) {
			numbers = append(numbers, shelf.ProductNumber)
		}
	}
	return numbers
}

func main() {
	fmt.Println(reorderList([]Shelf{{"tea-1", 3}, {"cup-4", 40}}, 12))
}
