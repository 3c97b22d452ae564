"""The schemas of configs/schema, and YAML as a plan means it. Where jsonschema or yaml is not installed, `available` is false."""

import functools
import json
import pathlib
import re

try:
    import jsonschema
    import yaml
except ImportError:
    jsonschema = yaml = None

available = jsonschema is not None
FOLDER = pathlib.Path(__file__).resolve().parents[2] / "configs" / "schema"


@functools.cache
def validator(name):
    documents = {path.as_uri(): json.loads(path.read_text()) for path in FOLDER.glob("*.schema.json")}
    address = (FOLDER / f"{name}.schema.json").as_uri()
    return jsonschema.Draft7Validator(documents[address], resolver=jsonschema.RefResolver(address, documents[address], store=documents))


def problems(name, document):
    """Where a document differs from a schema, and how; none where it is valid."""
    return [f"{list(error.absolute_path)}: {error.message[:300]}" for error in validator(name).iter_errors(document)]


@functools.lru_cache(maxsize=256)
def problems_of_text(name, text):
    """The same of a plan or a JSON document as it is written; equal texts, as of runs with other processes, are looked at once."""
    return tuple(problems(name, plan_from(text) if name == "plan" else json.loads(text)))


def plan_from(text):
    """A plan written as YAML (or JSON, which is YAML)."""
    return yaml.load(text, Loader=PlanLoader)


if yaml:
    class PlanLoader(yaml.SafeLoader):
        """YAML as a plan means it: keys are strings, and only what JSON has is a number or a boolean."""

        def construct_mapping(self, node, deep=False):
            return {str(self.construct_object(key, deep=True)) if not isinstance(key, yaml.ScalarNode) else key.value: self.construct_object(value, deep=True)
                    for key, value in node.value}

    PlanLoader.add_constructor("tag:yaml.org,2002:map", lambda loader, node: loader.construct_mapping(node))
    PlanLoader.yaml_implicit_resolvers = {
        letter: [(tag, form) for tag, form in (("tag:yaml.org,2002:bool", re.compile("^(true|false)$")), ("tag:yaml.org,2002:null", re.compile("^(~|null|)$")),
                                               ("tag:yaml.org,2002:int", re.compile("^-?(0|[1-9][0-9]*)$")), ("tag:yaml.org,2002:float", re.compile(r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$")))]
        for letter in [*"0123456789-tfn~", ""]}
