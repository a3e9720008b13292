module vllm-fleet.dev/routers

go 1.25.0
