module vllm-fleet.dev/control-plane/custom-resources

go 1.26.0

require (
	github.com/kedacore/keda/v2 v2.20.2
	github.com/kubernetes-csi/external-snapshotter/client/v8 v8.4.0
	sigs.k8s.io/gateway-api v1.5.1
	sigs.k8s.io/gateway-api-inference-extension v1.4.0
)
