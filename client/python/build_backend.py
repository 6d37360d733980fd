# SPDX-License-Identifier: Apache-2.0
"""setuptools' build backend, which asks for grpcio-tools only where no protoc is installed: a wheel then needs no network."""

import shutil

from setuptools.build_meta import *  # noqa: F401,F403  (the hooks of PEP 517)
from setuptools.build_meta import get_requires_for_build_wheel as _requires


def get_requires_for_build_wheel(config_settings=None):
    return _requires(config_settings) + ([] if shutil.which("protoc") else ["grpcio-tools"])
