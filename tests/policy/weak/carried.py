"""What carries a secret, or gets one without need."""

from __future__ import annotations

from typing import Any

from tests.policy.samples import server
from tests.policy.weak import Row, rows

# Put together here: a checker of the repository must not take them for real ones.
_TOKEN = "hf_" + "aBcDeFgH" * 5
_KEY = "correct-horse-" + "battery-staple"
_CONFIG, _POD = "kubernetes:core/v1:ConfigMap", "kubernetes:apps/v1:Deployment"


def _served(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    spec.setdefault("automountServiceAccountToken", False)
    return dict(server(container=container, spec=spec).props)


def _projected(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "t", "projected": {"sources": [source]}}]}


def _data(**data: str) -> dict[str, Any]:
    return {"metadata": {"name": "settings"}, "data": data}


WEAK = (
    *rows(
        "secret-in-plain-text",
        _CONFIG,
        ("a token", _data(token=_TOKEN)),
        ("a password by its key", _data(password=_KEY)),
        ("a key by its name", _data(**{"api-key": _KEY})),
        ("a key in camel case", _data(hfToken=_KEY)),
        ("a file of variables", _data(**{"server.env": f"PORT=8000\nVLLM_API_KEY={_KEY}\n"})),
        ("a YAML file", _data(**{"app.yaml": f"database:\n  user: me\n  password: {_KEY}\n"})),
        ("a properties file", _data(**{"app.properties": f"user=me\ndb.password = {_KEY}\n"})),
        ("a script", _data(**{"run.sh": f"#!/bin/sh\nexport HF_TOKEN={_KEY}\nexec vllm serve\n"})),
    ),
    *rows("secret-in-plain-text", "kubernetes:helm.sh/v3:Release", ("a chart's value", {"chart": "c", "values": {"auth": {"adminPassword": _KEY}}})),
    *rows(
        "secret-in-plain-text",
        _POD,
        ("a variable from a ConfigMap", _served({"env": [{"name": "HF_TOKEN", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]})),
        ("a variable in lower case", _served({"env": [{"name": "hf_token", "value": _KEY}]})),
        ("a shell's assignment", _served({"command": ["sh", "-c", f"HF_TOKEN={_KEY} vllm serve m"]})),
        ("an ephemeral container", _served(ephemeralContainers=[{"env": [{"name": "API_KEY", "value": _KEY}]}])),
    ),
    *rows(
        "secret-in-plain-text",
        "gcp:compute/instance:Instance",
        ("a startup script", {"metadataStartupScript": f"#!/bin/sh\nexport HF_TOKEN={_KEY}"}),
    ),
    *rows("secret-in-plain-text", "gcp:storage/bucketObject:BucketObject", ("an object", {"content": f"HF_TOKEN={_KEY}"})),
    *rows(
        "server-variables-unseen",
        _POD,
        ("a whole Secret", _served({"envFrom": [{"secretRef": {"name": "s"}}]})),
        ("a whole ConfigMap", _served({"envFrom": [{"configMapRef": {"name": "c"}}]})),
        ("in an init container", _served(initContainers=[{"name": "i", "envFrom": [{"secretRef": {"name": "s"}}]}])),
    ),
    *rows(
        "token-mounted-for-nothing",
        _POD,
        ("a projected token", _served(**_projected(serviceAccountToken={"path": "t"}))),
        ("a projected token for others", _served(**_projected(serviceAccountToken={"path": "t", "audience": "vault"}))),
    ),
    Row(
        "token-mounted-for-nothing",
        "a projected token in a server that has rights",
        (
            (_POD, _served(**_projected(serviceAccountToken={"path": "t"}), serviceAccountName="server")),
            (
                "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding",
                {"metadata": {"namespace": "vllm"}, "subjects": [{"kind": "ServiceAccount", "name": "server"}]},
            ),
        ),
    ),
)  # fmt: skip

SOUND = (
    *rows(
        "secret-in-plain-text",
        _CONFIG,
        ("a Secret's name", _data(existingSecret="hf-token", secretName="hf")),
        ("a file of names", _data(**{"app.yaml": "existingSecret: hf-token\ntokenPath: /var/run/token\nmaxTokens: 512\n"})),
        ("a variable in a file", _data(**{"app.env": "API_KEY=${API_KEY}\nPASSWORD=<yours>\n"})),
        ("a program", _data(**{"run.py": "import os\napi_key = os.environ['KEY']\ntoken: str = read()\n"})),
        ("a script that reads its key", _data(**{"run.sh": "#!/bin/sh\nexport VLLM_API_KEY=$(cat /key)\n"})),
        ("a digest", _data(sum="2e1b21350ce589fcaafbb3c7d7eac526a7aed5822e1b21350ce589fcaafbb3c7")),
    ),
    *rows("secret-in-plain-text", "kubernetes:helm.sh/v3:Release", ("a chart's reference", {"chart": "c", "values": {"auth": {"existingSecret": "admin", "enabled": True}}})),
    *rows(
        "secret-in-plain-text",
        _POD,
        ("a setting from a ConfigMap", _served({"env": [{"name": "MAX_TOKENS", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]})),
        ("a Secret's key", _served({"env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]})),
    ),
    *rows("server-variables-unseen", _POD, ("named variables", _served({"env": [{"name": "A", "value": "b"}]}))),
    *rows("server-variables-unseen", "kubernetes:batch/v1:Job", ("a pod without a server", {"spec": {"template": {"spec": {"containers": [{"envFrom": [{"secretRef": {"name": "s"}}]}]}}}})),
    *rows("token-mounted-for-nothing", _POD, ("another projection", _served(**_projected(configMap={"name": "ca"})))),
)  # fmt: skip
