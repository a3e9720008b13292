"""A small stand-in for vLLM's own benchmark client. With this folder on PYTHONPATH, `import vllm` finds it.

It takes the options that the benchmark's pods pass and writes the results that `vllm bench serve` 0.18.1 writes, so that every
other part can be tried without nine gigabytes of packages. It has no tokenizer: a word is a token.
"""
