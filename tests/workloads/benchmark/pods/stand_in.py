"""A module tree with the names of vLLM that the client uses, so that pods run here without vLLM and without a model.

Its requests take no network: each is a nap. What a client shall do wrong comes from the environment, as `client:what` words.
"""

from __future__ import annotations

from pathlib import Path

SERVE = """
import asyncio, json, os, random, sys, time
from types import SimpleNamespace

def add_cli_args(parser):
    for name in ("dataset-name", "dataset-path", "result-dir", "result-filename", "base-url", "tokenizer"):
        parser.add_argument(f"--{name}")
    for name in ("num-prompts", "num-warmups", "max-concurrency", "seed"):
        parser.add_argument(f"--{name}", type=int, default=0)
    parser.add_argument("--metadata", nargs="*")

def get_samples(args, tokenizer):
    draw = random.Random(args.seed)
    return [SimpleNamespace(prompt=f"{draw.random()}", prompt_len=10, expected_output_len=3) for _ in range(args.num_prompts)]

async def fetch_spec_decode_metrics(base_url, session):
    return None

async def main_async(args):
    metadata = dict(item.split("=", 1) for item in args.metadata)
    wrong = dict(word.split(":") for word in os.environ.get("WRONG", "").split()).get(metadata["client"])
    samples = get_samples(args, None)
    if wrong == "dies":
        print("no memory left for this client")
        sys.exit(3)
    if wrong != "no-first":
        await fetch_spec_decode_metrics(args.base_url, None)
    if wrong == "dies-later":
        print("it went wrong on the way")
        sys.exit(4)
    if wrong == "hangs":
        await asyncio.sleep(600)
    starts = []
    for number in range(args.num_prompts):
        starts.append(time.perf_counter())
        await asyncio.sleep(float(os.environ.get("REQUEST_SECONDS", "0.005")))
        print(f"requests: {number + 1}/{args.num_prompts} [00:00<00:00]", end="\\r", flush=True)
    if wrong == "early":
        starts[0] -= 60
    if wrong not in ("no-first", "no-second"):
        await fetch_spec_decode_metrics(args.base_url, None)
    length = 0 if wrong == "all-fail" else 3
    n = len(starts) - (wrong == "short")
    metadata = dict(item.split("=", 1) for item in args.metadata)
    result = {
        "date": "20260101-000000", "backend": "openai", "max_concurrency": args.max_concurrency, **metadata,
        "completed": n if length else 0, "failed": 0 if length else n, "start_times": starts[:n], "ttfts": [0.002] * n,
        "itls": [[0.001, 0.001]] * n, "input_lens": [10] * n, "output_lens": [length] * n,
        "key": os.environ.get("OPENAI_API_KEY"),
    }
    with open(os.path.join(args.result_dir, args.result_filename), "w") as file:
        json.dump(result, file)
    return result
"""
PARSER = """
import argparse

class FlexibleArgumentParser(argparse.ArgumentParser):
    def parse_args(self, args=None, namespace=None):
        return self.parse_known_args(args, namespace)[0]
"""


def stand_in(folder: Path, serve: str = SERVE) -> Path:
    """Write the tree below a folder and give the folder, for PYTHONPATH."""
    for name, text in {
        "vllm/__init__.py": '__version__ = "0.0.1"\n',
        "vllm/benchmarks/__init__.py": "",
        "vllm/benchmarks/serve.py": serve,
        "vllm/utils/__init__.py": "",
        "vllm/utils/argparse_utils.py": PARSER,
    }.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder
