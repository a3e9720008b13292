// The real Kubernetes provider of Pulumi. Its module serves its library, and its program without the two files that it embeds;
// the build copies them from their sources in the module.
package main

import (
	_ "embed"
	"fmt"
	"os"
	"strings"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
)

//go:embed schema.json
var schema []byte

//go:embed terraform-mapping.json
var mapping []byte

// Set by the linker, with a leading v.
var version string

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println(version)
		return
	}
	provider.Serve("kubernetes", strings.TrimPrefix(version, "v"), schema, mapping)
}
