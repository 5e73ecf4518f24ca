"""B. Configuration."""

import pytest
import yaml

from loom_ia.access import Loom
from loom_ia.agents import AgentSpec, MainRole, PythonTool
from loom_ia.config.root import EventsStorage, LoomConfig, Storage
from loom_ia.core.errors import ConfigError
from loom_ia.core.model import ModelSpec
from loom_ia.tools import tool
from tests.acceptance.project import Project


def refused(project: Project, *options: str) -> str:
    """Validate, expect a refusal, and give what was said."""
    done = project.command(*options, "validate")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_b1_unknown_key(project: Project) -> None:
    """An unknown key is refused with its file, its model and its name."""
    text = project.file.read_text()
    project.write("loom.yaml", text.replace("sdk: fake", "sdk: fake\n  max_token: 3"))
    said = refused(project)
    for part in ("loom.yaml", "models[SIMULE]", "max_token"):
        assert part in said, said


def test_b2_errors_in_two_agents(project: Project) -> None:
    """Errors of two agents are reported in one go."""
    project.write("agents/devis.yaml", "name: devis\nmain: {model: SIMULE}\n")
    project.write("agents/autre.yaml", "name: autre\nmain: {model: SIMULE, system: x}\nmax_iter: 1")
    said = refused(project)
    assert "devis.yaml" in said
    assert "autre.yaml" in said


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"main": {"model": "X", "system": "x"}}, "X"),
        ({"tools": [{"python": "prix"}]}, "prix"),
        ({"tools": [{"mcp": "notes"}]}, "notes"),
        ({"tools": [{"source": "carnet"}]}, "carnet"),
    ],
    ids=["undeclared model", "tool not found", "undeclared server", "undeclared source"],
)
def test_b3_names_of_nothing(project: Project, change: dict, names: str) -> None:
    """An agent that names a model, a tool or a server that is not there is refused."""
    project.agent = change
    project.save()
    said = refused(project)
    assert "devis.yaml" in said
    assert names in said


def test_b4_unknown_variable(project: Project) -> None:
    """A prompt with an unknown variable is refused when it is loaded, with the file."""
    project.prompt = "Bonjour {{ inconnue }}."
    project.save()
    with pytest.raises(ConfigError) as refusal:
        project.loom()
    assert "inconnue" in str(refusal.value)
    assert "devis.md" in str(refusal.value)


def test_b8_profile(project: Project) -> None:
    """The option wins over the variable, which wins over the file."""
    project.root["profile"] = "dev"
    project.save()
    for words, environ, active in (
        (("--profile", "prod"), {"LOOM_PROFILE": "dev"}, "prod"),
        ((), {"LOOM_PROFILE": "prod"}, "prod"),
        ((), {}, "dev"),
    ):
        done = project.command(*words, "validate", **environ)
        assert done.returncode == 0, done.stderr
        (line,) = [line for line in done.stdout.splitlines() if line.startswith("Profile")]
        assert active in line


def test_b12_approval_in_memory(project: Project) -> None:
    """A tool that may wait for a human needs a journal that outlives the process, save in dev."""
    project.backend, project.tools = "memory", ["relancer"]
    project.save()
    assert "relancer" in refused(project)
    assert project.command("--profile", "dev", "validate").returncode == 0


async def test_b16_configuration_in_python(project: Project) -> None:
    """The same configuration written in Python gives the same events."""

    @tool
    def prix_ttc(montant_ht: float, taux_tva: float = 20.0) -> dict[str, float]:
        """Calcule la TVA et le montant TTC d'un devis. Le taux est en pourcentage."""
        return {"montant_ttc": montant_ht * (1 + taux_tva / 100)}

    written = yaml.safe_load(project.file.read_text())["models"][0]
    config = LoomConfig(
        version=1,
        models=(ModelSpec(**written),),
        storage=Storage(events=EventsStorage(backend="memory")),
        agents=(
            AgentSpec(
                name="devis",
                main=MainRole(model="SIMULE", system=project.prompt),
                tools=(PythonTool(python="prix_ttc"),),
            ),
        ),
    )
    given = Loom(config)
    given.register("prix_ttc", prix_ttc)
    types = []
    async with project.loom() as read, given:
        for loom in (read, given):
            result = await loom.run("devis", "Quel prix ?")
            types.append([event.type for event in await loom.events(result.run_id)])
    assert types[0] == types[1]
