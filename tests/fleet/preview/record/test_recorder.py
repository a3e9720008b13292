from __future__ import annotations

import asyncio
import os
import signal
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as k8s
import pytest
from pulumi.resource import DependencyResource
from pulumi_gcp import organizations, projects, serviceaccount

from fleet import CODE, program_folder
from fleet.clients.stopping import Stopped, stopped_by_exception
from fleet.preview.record.recorder import UNKNOWN, ProgramError, Recording, Secret, record
from tests.fleet.preview.programs import TOKEN, run, whole_fleet
from tests.support.rows import each_row


class Outer(pulumi.ComponentResource):
    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("fixture:test:Outer", name, None, opts)
        self.account = serviceaccount.Account(
            f"{name}-account", account_id="fleet", opts=pulumi.ResourceOptions(parent=self)
        )
        self.register_outputs({"email": self.account.email, "token": pulumi.Config().require_secret("token")})


def one(recording: Recording, name: str) -> Any:
    return next(resource for resource in recording.resources if resource.name == name)


def on_cluster() -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions(provider=k8s.Provider("cluster", kubeconfig="{}"))


def config_map(name: str, data: dict[str, Any], opts: pulumi.ResourceOptions) -> k8s.apiextensions.CustomResource:
    return k8s.apiextensions.CustomResource(
        name, api_version="v1", kind="ConfigMap", metadata={"name": name}, spec=data, opts=opts
    )


def account() -> None:
    made = serviceaccount.Account("nodes", account_id="fleet")
    projects.IAMMember("writer", project="my-project", role="roles/viewer", member=made.member)
    pulumi.export("email", made.email)


def test_preview_mode_knows_inputs_and_nothing_else() -> None:
    recording = run(account, "preview")
    assert one(recording, "nodes").inputs == {"accountId": "fleet"}
    assert one(recording, "writer").inputs["member"] is UNKNOWN
    assert recording.outputs == {"email": UNKNOWN}


def test_known_mode_fills_in_what_the_cloud_would_say() -> None:
    recording = run(account, "known")
    assert one(recording, "writer").inputs["member"] == "serviceAccount:fleet@my-project.iam.gserviceaccount.com"
    assert recording.outputs == {"email": "fleet@my-project.iam.gserviceaccount.com"}


def test_every_resource_comes_after_all_it_needs() -> None:
    seen: set[str] = set()
    for resource in whole_fleet("known").resources:
        assert {resource.parent, *resource.dependencies} - {""} <= seen
        seen.add(resource.urn)


def test_urns_name_the_component_that_a_resource_belongs_to() -> None:
    recording = run(lambda: (Outer("outer"), None)[1])
    inner = one(recording, "outer-account")
    assert inner.urn == (
        "urn:pulumi:test::fixture::fixture:test:Outer$gcp:serviceaccount/account:Account::outer-account"
    )
    assert inner.parent == one(recording, "outer").urn


def test_components_show_the_outputs_they_announced_with_secrets_marked() -> None:
    outputs = one(run(lambda: (Outer("outer"), None)[1]), "outer").outputs
    assert outputs["email"] == "fleet@my-project.iam.gserviceaccount.com"
    assert outputs["token"] == Secret(TOKEN)
    assert TOKEN not in repr(outputs)


def test_integers_stay_integers_and_fractions_fractions() -> None:
    recording = run(lambda: pulumi.export("numbers", [1, 2.5, True, {"deep": 10**9}]))
    assert recording.outputs["numbers"] == [1, 2.5, True, {"deep": 10**9}]
    assert [type(number) for number in recording.outputs["numbers"][:3]] == [int, float, bool]


def test_options_are_recorded() -> None:
    def program() -> None:
        first = serviceaccount.Account("first", account_id="first")
        serviceaccount.Account(
            "second",
            account_id="second",
            opts=pulumi.ResourceOptions(
                protect=True,
                retain_on_delete=True,
                custom_timeouts=pulumi.CustomTimeouts(create="60m"),
                ignore_changes=["displayName"],
                replace_on_changes=["accountId"],
                additional_secret_outputs=["email"],
                deleted_with=first,
                depends_on=[first],
                delete_before_replace=True,
                aliases=[pulumi.Alias(name="old")],
            ),
        )

    recording = run(program)
    first, second = one(recording, "first"), one(recording, "second")
    assert (second.protect, second.retain_on_delete, second.delete_before_replace) == (True, True, True)
    assert (first.protect, first.retain_on_delete, first.delete_before_replace) == (False, False, None)
    assert second.custom_timeouts == {"create": "60m"}
    assert second.ignore_changes == ("displayName",)
    assert second.replace_on_changes == ("accountId",)
    assert second.deleted_with == first.urn
    assert second.dependencies == (first.urn,)
    assert "old" in {alias.name for alias in second.aliases}
    assert second.outputs["email"] == Secret("second@my-project.iam.gserviceaccount.com")


def test_dependencies_are_recorded_per_property() -> None:
    recording = run(account)
    assert one(recording, "writer").property_dependencies == {"member": (one(recording, "nodes").urn,)}


def test_a_resource_points_at_the_line_that_made_it() -> None:
    recording = run(account, root=Path(__file__).parent)
    file, _, line = one(recording, "nodes").source_position.partition(":")
    assert file == "test_recorder.py"
    assert "serviceaccount.Account" in Path(__file__).read_text().splitlines()[int(line) - 1]


def test_stacks_are_short_while_the_program_runs() -> None:
    lengths: list[int] = []

    def program(depth: int = 40) -> None:
        if depth:
            return program(depth - 1)
        lengths.append(len(traceback.extract_stack()))
        raise ValueError("no")

    with pytest.raises(ProgramError, match=r"no \(test_recorder.py:\d+\)") as caught:
        run(program, root=Path(__file__).parent)
    assert max(lengths) == 16
    assert (
        Path(__file__).read_text().splitlines()[int(str(caught.value).rpartition(":")[2][:-1]) - 1].strip()
        == 'raise ValueError("no")'
    )
    assert not hasattr(sys, "tracebacklimit")


def test_duplicate_urns_are_refused_with_both_lines() -> None:
    def program() -> None:
        serviceaccount.Account("same", account_id="a")
        serviceaccount.Account("same", account_id="b")

    with pytest.raises(ProgramError, match=r"two resources have the URN .*Account::same \(at .*:\d+ and .*:\d+\)"):
        run(program, root=Path(__file__).parent)


def test_kubernetes_objects_on_the_ambient_cluster_are_found() -> None:
    def program() -> None:
        config_map("strayed", {}, pulumi.ResourceOptions())
        config_map("fine", {}, on_cluster())

    recording = run(program)
    (found,) = recording.diagnostics
    assert found.severity == "error"
    assert found.urn == one(recording, "strayed").urn
    assert "ambient kubeconfig" in found.message


@pytest.mark.parametrize("disabled", ['["kubernetes"]', '["aws", " * "]'])
def test_a_disabled_default_provider_is_refused_as_the_engine_refuses_it(disabled: str) -> None:
    config = {"pulumi:disable-default-providers": disabled}
    with pytest.raises(ProgramError, match=r"kubernetes:v1:ConfigMap 'strayed'.*explicit provider"):
        run(lambda: (config_map("strayed", {}, pulumi.ResourceOptions()), None)[1], config=config)


@pytest.mark.parametrize("disabled", ['["kubernetes"]', "[]", ""])
def test_an_explicit_provider_and_other_packages_are_not_refused(disabled: str) -> None:
    def program() -> None:
        config_map("fine", {}, on_cluster())
        organizations.get_project_output(project_id="p")
        account()

    assert run(program, config={"pulumi:disable-default-providers": disabled}).diagnostics == ()


def test_a_data_source_of_a_disabled_default_provider_is_refused() -> None:
    def program() -> None:
        pulumi.export("number", organizations.get_project_output(project_id="p").number)

    with pytest.raises(ProgramError, match=r"getProject has no explicit provider"):
        run(program, config={"pulumi:disable-default-providers": '["gcp"]'})


def test_what_nobody_synthesised_stays_unknown_in_known_mode() -> None:
    def program() -> None:
        made = projects.IAMMember("one", project="p", role="roles/viewer", member="user:a@example.com")
        pulumi.export("id", made.id)
        pulumi.export("etag", made.etag)
        pulumi.export("text", pulumi.Output.format("etag is {0}", made.etag))

    outputs = run(program).outputs
    assert outputs == {"id": "p/roles/viewer/user:a@example.com", "etag": UNKNOWN, "text": UNKNOWN}


def test_secrets_keep_their_mark_through_a_kubernetes_manifest() -> None:
    def program() -> None:
        token = pulumi.Config().require_secret("token")
        config_map("holder", {"line": pulumi.Output.format("token={0}", token), "plain": "x"}, on_cluster())

    spec = one(run(program), "holder").inputs["spec"]
    assert Secret(f"token={TOKEN}") in (spec, spec.value if isinstance(spec, Secret) else spec["line"])
    assert TOKEN not in repr(one(run(program), "holder"))


@pytest.mark.parametrize("mode", ["preview", "known"])
def test_an_output_used_as_text_is_refused_with_its_line(mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PULUMI_ERROR_OUTPUT_STRING", raising=False)

    def program() -> None:
        made = serviceaccount.Account("nodes", account_id="fleet")
        pulumi.export("text", f"mail {made.email}")

    with pytest.raises(ProgramError, match=r"\(test_recorder.py:\d+\).*Output.format"):
        run(program, mode, root=Path(__file__).parent)


def test_errors_of_the_program_are_one_line_that_names_the_place() -> None:
    def program() -> None:
        raise ValueError("too few,\n got 0; set vllm-fleet:replicas")

    with pytest.raises(ProgramError) as caught:
        run(program, root=Path(__file__).parent)
    message = caught.value.message
    assert message.startswith("too few, got 0; set vllm-fleet:replicas (test_recorder.py:")
    assert isinstance(caught.value.cause, ValueError)


def deleted_with_another() -> None:
    gone = DependencyResource("urn:pulumi:test::fixture::a:b:C::gone")
    account_with(deleted_with=gone)


def account_with(**options: Any) -> None:
    serviceaccount.Account("a", account_id="a", opts=pulumi.ResourceOptions(**options))


@each_row(
    ("program", "why"),
    [
        (lambda: {}["zone"], r"^KeyError: 'zone'"),
        (lambda: sys.exit(3), "exit code 3"),
        (
            lambda: organizations.get_organization_output(domain="example.com"),
            r"calls gcp:organizations/getOrganization:getOrganization.*getProject",
        ),
        (
            lambda: serviceaccount.Account.get("found", "x"),
            r"reads an existing gcp:serviceaccount/account:Account \(id 'x'\)",
        ),
        (lambda: k8s.yaml.v2.ConfigGroup("group", yaml="", opts=on_cluster()), "remote component"),
        (deleted_with_another, r"deleted with .*C::gone"),
        # What cannot be honoured is not dropped.
        (lambda: account_with(transforms=[lambda _: None]), "the program uses transforms,"),
        (
            lambda: account_with(hooks=pulumi.ResourceHookBinding(before_create=[lambda _: None])),
            "the program uses resource hooks,",
        ),
    ],
)
def test_what_cannot_be_recorded_is_refused(program: Callable[[], object], why: str) -> None:
    with pytest.raises(ProgramError, match=why):
        run(lambda: (program(), None)[1])


def test_errors_inside_an_apply_are_the_programs_errors_and_stderr_stays_clean(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def program() -> None:
        made = serviceaccount.Account("nodes", account_id="fleet")
        for index in range(3):
            pulumi.export(f"broken{index}", made.email.apply(lambda text: text.nope))
        serviceaccount.Account("other", account_id=made.email.apply(lambda _: 1 / 0))

    with pytest.raises(ProgramError, match=r"nope|division by zero"):
        run(program)
    assert capfd.readouterr().err == ""


def test_the_projects_number_is_made_up_in_known_mode_and_unknown_in_preview() -> None:
    def program() -> None:
        pulumi.export("number", organizations.get_project_output().number)

    assert run(program, "preview").outputs["number"] is UNKNOWN
    assert len(run(program, "known").outputs["number"]) == 12


def test_a_recording_leaves_the_sdk_as_it_was() -> None:
    run(account)
    assert vars(pulumi.runtime.stack)["asyncio"] is asyncio


def test_warnings_of_the_program_are_kept_and_debug_logs_are_not() -> None:
    def program() -> None:
        pulumi.log.debug("noise")
        pulumi.log.info("noise")
        pulumi.log.warn("mind the gap")

    assert [(one.severity, one.message) for one in run(program).diagnostics] == [("warning", "mind the gap")]


def test_stacks_recorded_from_several_threads_do_not_mix() -> None:
    def recorded(index: int) -> Recording:
        def program() -> None:
            serviceaccount.Account(f"account-{index}", account_id=f"fleet-{index}")
            pulumi.export("stack", f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}")
            pulumi.export("size", pulumi.Config().get_int("size"))

        return run(program, stack=f"stack{index}", config={"fixture:size": "1"} if index % 2 else {})

    with ThreadPoolExecutor(4) as pool:
        recordings = list(pool.map(recorded, range(8)))
    for index, recording in enumerate(recordings):
        size = {"size": 1} if index % 2 else {}
        assert recording.outputs == {"stack": f"organization/fixture/stack{index}", **size}
        assert [one.name for one in recording.resources] == [f"fixture-stack{index}", f"account-{index}"]


def test_recording_works_from_inside_a_running_event_loop() -> None:
    async def caller() -> Recording:
        return run(account)

    assert asyncio.run(caller()).outputs["email"].startswith("fleet@")


def test_a_project_is_run_from_its_main_file_with_its_folder_as_home(tmp_path: Path) -> None:
    (tmp_path / "only_here.py").write_text("from pathlib import Path\nvalue = Path('data.txt').read_text()\n")
    (tmp_path / "data.txt").write_text("found")
    (tmp_path / "__main__.py").write_text(
        "import pulumi, only_here\npulumi.export('value', only_here.value)\npulumi.export('name', __name__)\n"
    )
    before = (Path.cwd(), list(sys.path))
    recording = record(tmp_path, project="p", stack="s", config={}, mode="known")
    assert recording.outputs == {"name": "__main__", "value": "found"}
    assert (Path.cwd(), sys.path) == before


def test_a_folder_without_a_program_gets_ours(tmp_path: Path) -> None:
    assert program_folder(tmp_path) == CODE
    (tmp_path / "__main__.py").touch()
    assert program_folder(tmp_path) == tmp_path


def test_recordings_of_the_same_stack_are_equal() -> None:
    assert run(account).resources == run(account).resources


def test_configuration_of_the_environment_does_not_reach_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_CONFIG", '{"vllm-fleet:a": "1"}')
    monkeypatch.setenv("PULUMI_CONFIG_VLLM_FLEET_B", "2")
    recording = run(lambda: [pulumi.export(key, pulumi.Config("vllm-fleet").get(key)) for key in "ab"], "preview")
    assert recording.outputs == {}
    assert os.environ["PULUMI_CONFIG_VLLM_FLEET_B"] == "2"


def test_a_signal_ends_the_recorder_and_is_no_error_of_the_program() -> None:
    with stopped_by_exception(), pytest.raises(Stopped) as stopped:
        run(lambda: signal.raise_signal(signal.SIGTERM), "preview")
    assert stopped.value.code == 143
