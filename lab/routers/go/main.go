// routerload plays what stands before and behind a router, on loopback: model servers that count every token, and clients that time
// every chunk.
//
//	routerload ranks -pods 8 -ranks 8 ...     model servers, one address a pod and one port a rank
//	routerload clients -targets host:port ... requests through a router, or directly
package main

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("usage: routerload ranks|clients"))
	}
	var err error
	switch os.Args[1] {
	case "ranks":
		err = serve(os.Args[2:])
	case "clients":
		err = load(os.Args[2:])
	default:
		err = fmt.Errorf("%q: ranks or clients", os.Args[1])
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
