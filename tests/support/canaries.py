"""Texts that look like secrets and are none, made here so that no such text stands in the repository."""

from __future__ import annotations

CORE = "Siskin" + "0x1y2z3" * 5
"""In every canary, which is a section of a stack file, too: a report that shows any part of one shows this, or what is left of it."""
CANARIES: dict[str, str] = {
    "hugging-face": "hf_" + CORE,
    "openai": "sk-proj-" + CORE,
    "github": "ghp_" + CORE[:36],
    "aws": "AKIA" + "SISKIN0X1Y2Z3A4B",
    "google": "AIza" + CORE[:35],
    "jwt": f"eyJ{CORE}.eyJ{CORE}.{CORE}",
    "pem": f"-----BEGIN PRIVATE KEY-----\n{CORE}\n-----END PRIVATE KEY-----\n",
    "url": f"https://user:{CORE}@example.com/requests.jsonl",
    "signed-url": f"https://example.com/requests.jsonl?X-Goog-Signature={CORE}",
    "bearer": f"Authorization: Bearer {CORE}",
}


def shown(text: str) -> bool:
    """Whether any part of any canary is in a text that was printed."""
    return "siskin" in text.lower() or "0x1y2z3" in text.lower()
