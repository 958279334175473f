// Command required uses a module with a known vulnerability, and not the function that has it.
package main

import (
	"fmt"
	"os"

	"golang.org/x/text/unicode/norm"
)

func main() {
	fmt.Println(norm.NFC.String(os.Args[1]))
}
