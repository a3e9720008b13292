// One model's servers with a cluster of their own. `pulumi package add` makes @pulumi/vllm-fleet: docs/package.md.
import * as pulumi from "@pulumi/pulumi";
import * as vllm from "@pulumi/vllm-fleet";

const config = new pulumi.Config();
const fleet = new vllm.VllmFleet("chat", {
    project: config.require("project"),
    zones: ["us-central1-a"],
    machine: "g2-standard-12", // one L4
    capacity: "on-demand",
    model: "Qwen/Qwen3.5-4B",
    profile: "serve-chat",
    engine: { maxNumSeqs: 32, maxNumBatchedTokens: null, gpuMemoryUtilization: 0.9, speculative: null },
    replicas: config.getNumber("replicas") ?? 1,
    weightsSizeGib: 16,
    weightsThroughputMibps: 400,
    apiKey: config.getSecret("apiKey"),
    deletionProtection: false,
});

export const { endpoint, model, kubeconfig } = fleet;
