#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Objects of operators' kinds against the schemas that their projects publish, which are not part of this repository:

  /usr/local/lib/vicinal-kubernetes/bin/python tests/deploy/custom_resources.py CRD.yaml ...

Each CRD.yaml is a CustomResourceDefinition. Checked are all such objects of deploy/kubernetes, as kubectl renders them, and of deploy/kserve.
A field that a schema does not know is an error: a cluster would drop it in silence. Needs jsonschema and PyYAML, which
deploy/packages.sh installs there with kubernetes-validate, and kubectl. Exit status 1: an object is wrong, or no file knows its kind."""

import os
import sys

import jsonschema
import yaml

import manifests


def closed(schema):
    """The schema, taking no fields that it does not name."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        made.pop("type", None)
    return made


def read_schemas(paths):
    """{(apiVersion, kind): schema}."""
    schemas = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            spec = yaml.safe_load(file)["spec"]
        for version in spec["versions"]:
            schema = closed(version["schema"]["openAPIV3Schema"])
            # Of these a schema of kinds says only that they are objects.
            schema["properties"]["metadata"] = {"type": "object"}
            schemas[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = schema
    return schemas


def objects():
    """(where, object) of all objects that Kubernetes alone does not know."""
    for overlay in manifests.overlays():
        for each in manifests.render(overlay):
            yield f"overlays/{overlay}", each
    folder = os.path.join(manifests.ROOT, "deploy", "kserve")
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            for each in yaml.safe_load_all(file):
                yield f"kserve/{name}", each


def is_custom(document):
    group = document["apiVersion"].rpartition("/")[0]
    return "." in group and not group.endswith(".k8s.io")


def main():
    schemas = read_schemas(sys.argv[1:])
    bad = 0
    for where, each in objects():
        if not is_custom(each):
            continue
        what = f"{where}: {each['kind']} {each['metadata']['name']}"
        schema = schemas.get((each["apiVersion"], each["kind"]))
        if schema is None:
            found = [f"no file has the schema of {each['apiVersion']} {each['kind']}"]
        else:
            found = [f"{error.json_path}: {error.message[:300]}" for error in jsonschema.Draft7Validator(schema).iter_errors(each)]
        print(f"{what}: " + ("ok" if not found else "; ".join(found)))
        bad += bool(found)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
