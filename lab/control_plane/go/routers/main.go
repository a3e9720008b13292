// routerload plays what stands before and behind a router, on loopback: model servers that count every token, the pods of
// Kubernetes' API that a picker watches, and clients that time every chunk.
//
//	routerload ranks -pods 8 -ranks 8 ...     model servers, one address a pod and one port a rank
//	routerload clients -targets host:port ... requests through a router, or directly, or as an endpoint picker says
//	routerload picker --pool-name servers ... the endpoint picker itself, as its own module runs it
package main

import (
	"fmt"
	"os"
	"syscall"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/gateway-api-inference-extension/cmd/epp/runner"
)

// version is that of the picker's module, set by the linker.
var version string

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("usage: routerload ranks|clients|picker|--version"))
	}
	var err error
	switch os.Args[1] {
	case "--version":
		fmt.Println(version)
	case "ranks":
		err = serve(os.Args[2:])
	case "clients":
		err = load(os.Args[2:])
	case "picker":
		os.Args = append(os.Args[:1], os.Args[2:]...)
		err = runner.NewRunner().Run(ctrl.SetupSignalHandler())
	default:
		err = fmt.Errorf("%q: ranks, clients, picker or --version", os.Args[1])
	}
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// cpuSeconds is the processor time of this process so far.
func cpuSeconds() float64 {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
}
