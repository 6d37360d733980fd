#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows that check_layers.py finds planted violations, and passes what is allowed."""

import os
import subprocess
import sys
import tempfile
import unittest

import check_layers

FORBIDDEN = [
    # Down the ladder only.
    ("engine/graph/csr.h", '#include "engine/kernels/kernel.h"', "may not include engine/kernels/"),
    ("engine/base/error.h", '#include "engine/device/device.h"', "may not include engine/device/"),
    ("engine/reorder/order.h", '#include "engine/profile/graph_profile.h"', "may not include engine/profile/"),
    ("engine/model/load.cc", '#include "engine/kernels/registry.h"', "may not include engine/kernels/"),
    ("engine/kernels/cpu/simd.cc", '#include "engine/model/model.h"', "may not include engine/model/"),
    ("engine/prepare/prepare.cc", '#include "engine/plan/plan.h"', "may not include engine/plan/"),
    ("engine/plan/plan.cc", '#include "engine/execute/executor.h"', "may not include engine/execute/"),
    ("engine/plan/build/plan_layout.cc", '#include "engine/execute/executor.h"', "may not include engine/execute/"),
    ("engine/plan/plan.cc", '#include "engine/api/engine.h"', "callers of the engine"),
    ("engine/execute/resolve.cc", '#include "engine/durable/graph_loader.h"', "may not include engine/durable/"),
    ("engine/tuning/graph_tuner.cc", '#include "engine/coordination/graph_tiers.h"', "may not include engine/coordi"),
    ("engine/coordination/graph_tiers.cc", '#include "engine/cuda/runtime/send.h"', "may not include engine/cuda/"),
    ("engine/coordination/graph_tiers.cc", '#include "engine/api/engine.h"', "callers of the engine"),
    ("engine/engine_requests.cc", '#include "engine/execute/resolve.h"', "every file of the engine belongs to a folder"),
    ("engine/novel/thing.cc", '#include "engine/base/check.h"', "not on the ladder"),
    # Sides.
    ("engine/base/log.cc", '#include "server/metrics.h"', "only engine/"),
    ("server/handlers/classify.cc", '#include "engine/plan/plan.h"', "of the engine the server includes"),
    ("server/handlers/classify.cc", '#include "engine/create_engine.h"', "of the engine the server includes"),
    ("engine/api/engine.h", '#include "engine/store/graph_store.h"', "engine/api/ may not include engine/store/"),
    ("engine/memory/memory_budget.h", '#include "engine/api/requests.h"', "engine/memory/ may not include engine/api/"),
    ("client/cpp/client.cc", '#include "engine/base/error.h"', "client/ and proto/"),
    ("client/cpp/client.cc", '#include "engine/state/inspect.h"', "client/ and proto/"),
    ("client/cpp/cli/state_commands.cc", '#include "engine/durable/durable_store.h"', "client/ and proto/"),
    ("client/cpp/client.cc", '#include "server/errors.h"', "client/ and proto/"),
    ("proto/wire/names.cc", '#include "engine/base/check.h"', "proto/ only"),
    # Foreign libraries.
    ("engine/engine.cc", "#include <grpcpp/grpcpp.h>", "gRPC stops"),
    ("server/handlers/classify.cc", "#include <grpcpp/grpcpp.h>", "gRPC stops"),
    ("server/handlers/classify.cc", '#include "vicinal/v1/inference.grpc.pb.h"', "gRPC stops"),
    ("engine/model/load.cc", '#include "vicinal/v1/model.pb.h"', "protobuf"),
    ("engine/model/load.cc", "#include <google/protobuf/message.h>", "protobuf"),
    ("server/handlers/classify.cc", "#include <prometheus/counter.h>", "Prometheus"),
    ("engine/execute/executor.cc", '#include "absl/flags/flag.h"', "flags"),
    ("server/handlers/classify.cc", '#include "absl/flags/flag.h"', "flags"),
    ("engine/kernels/kernel.h", "#include <cuda_runtime.h>", "CUDA"),
    ("engine/kernels/cpu/simd.cc", '#include "engine/kernels/cuda/rows.cuh"', "CUDA"),
    ("engine/kernels/rows.cu", "", "CUDA sources"),
    ("engine/store/graph_store.cc", '#include "absl/synchronization/mutex.h"', "locks"),
    ("server/server.cc", '#include "absl/synchronization/mutex.h"', "locks"),
    ("client/cpp/load/run.cc", '#include "absl/synchronization/mutex.h"', "locks"),
    ("engine/kernels/kernel.cc", 'const char* home = getenv("HOME");', "environment"),
    ("engine/graph/csr.cc", '#include "csr.h"', "repository's root"),
    # Files of tests.
    ("tests/client/files_test.cc", 'const std::string path = ::testing::TempDir() + "/a.npz";', "in a TemporaryDirectory"),
    ("tests/client/files_test.cc", 'const auto path = fs::temp_directory_path() / "a.npz";', "in a TemporaryDirectory"),
    ("tests/server/files_test.cc", "EXPECT_NE(mkdtemp(folder_.data()), nullptr);", "in a TemporaryDirectory"),
    ("tests/server/testing.h", "const int fd = mkstemp(path.data());", "in a TemporaryDirectory"),
    ("tests/fuzz/target.cc", 'path("/tmp/input_" + std::to_string(getpid()))', "in a TemporaryDirectory"),
    ("tests/support/other.h", 'std::ofstream("/dev/shm/a");', "in a TemporaryDirectory"),
]

ALLOWED = [
    ("engine/graph/csr.cc", '#include "engine/base/error.h"'),
    ("engine/graph/csr.cc", "#include <vector>"),
    ("engine/store/model_store.cc", '#include "engine/model/model.h"'),
    ("engine/plan/plan.cc", '#include "engine/prepared/prepared_graph.h"'),
    ("engine/engine.cc", '#include "engine/execute/executor.h"'),
    ("engine/engine.cc", '#include "engine/coordination/graph_tiers.h"'),
    ("engine/coordination/graph_tiers.cc", '#include "engine/durable/graph_loader.h"'),
    ("engine/kernels/cuda/rows.cu", '#include "engine/kernels/cuda/rows.cuh"'),
    ("engine/kernels/cuda/rows.cu", "#include <cuda_runtime.h>"),
    ("server/handlers/classify.cc", '#include "engine/api/engine.h"'),
    ("server/convert.cc", '#include "engine/api/resources.h"'),
    ("server/handlers/classify.cc", '#include "vicinal/v1/inference.pb.h"'),
    ("server/services/inference_service.cc", "#include <grpcpp/grpcpp.h>"),
    ("server/metrics.cc", "#include <prometheus/counter.h>"),
    ("server/main.cc", '#include "absl/flags/flag.h"'),
    ("server/main.cc", '#include "absl/synchronization/mutex.h"'),
    ("client/cpp/cli/main.cc", '#include "absl/synchronization/mutex.h"'),
    ("client/cpp/client.cc", "#include <grpcpp/grpcpp.h>"),
    ("client/cpp/cli/state_commands.cc", '#include "engine/state/inspect.h"'),
    ("client/cpp/cli/main.cc", 'const char* token = getenv("VICINAL_TOKEN");'),
    ("engine/graph/csr.cc", "// getenv() is not for here"),
    ("tests/server/end_to_end_test.cc", '#include "engine/plan/plan.h"'),
    ("tests/support/temporary_directory.h", "if (mkdtemp(path_.data()) != nullptr) return;"),
    ("tests/client/files_test.cc", 'const TemporaryDirectory folder("/dev/shm");'),
    ("tests/client/files_test.cc", "// Not mkdtemp(): as the program does it."),
    ("engine/state/posix_file_system.cc", "const int fd = mkstemp(path.data());"),
]


class CheckLayersTest(unittest.TestCase):
    def check(self, path, line):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, os.path.dirname(path)))
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write("// A file.\n" + line + "\n")
            count, violations = check_layers.check_tree(root)
            self.assertEqual(count, 1)
            return violations

    def test_planted_violations_are_found(self):
        for path, line, expected in FORBIDDEN:
            with self.subTest(path=path, line=line):
                violations = self.check(path, line)
                self.assertEqual(len(violations), 1, violations)
                self.assertIn(expected, violations[0])
                self.assertTrue(violations[0].startswith(path + ":"))

    def test_what_is_allowed_passes(self):
        for path, line in ALLOWED:
            with self.subTest(path=path, line=line):
                self.assertEqual(self.check(path, line), [])

    def test_every_engine_folder_is_on_the_ladder(self):
        engine = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "engine")
        folders = {name for name in os.listdir(engine) if os.path.isdir(os.path.join(engine, name))}
        self.assertLessEqual(folders, set(check_layers.ENGINE_LADDER))

    def test_a_ladder_with_a_cycle_is_refused(self):
        with self.assertRaisesRegex(ValueError, "each other"):
            check_layers.check_ladder({"a": {"b"}, "b": {"a"}})

    def test_the_table_for_contributors_must_equal_the_ladder(self):
        table = "| `engine/a` | one | nothing of ours |\n| `engine/b` | two | a |\n| `engine/c` | three | b |\n"
        self.assertEqual(check_layers.check_contributing(table, {"a": set(), "b": {"a"}, "c": {"a", "b"}}), [])
        for ladder, expected in [
                ({"a": set(), "b": {"a"}, "c": {"b"}}, "engine/c may include ['a', 'b'] according to the table"),
                ({"a": set(), "b": {"a"}}, "engine/c is missing from ENGINE_LADDER"),
                ({"a": set(), "b": {"a"}, "c": {"a", "b"}, "d": set()}, "engine/d is missing from the table")]:
            with self.subTest(expected=expected):
                violations = check_layers.check_contributing(table, ladder)
                self.assertEqual(len(violations), 1, violations)
                self.assertIn(expected, violations[0])
        self.assertIn("before what it may include: ['z']",
                      check_layers.check_contributing("| `engine/a` | one | z |\n", {"a": set()})[0])

    def test_the_table_must_name_what_the_server_may_include(self):
        row = "| `server/` | flags | `engine/api`, `engine/base`, `engine/memory`, proto |\n"
        self.assertEqual(check_layers.check_server_row(row), [])
        for other in (row.replace("`engine/base`, ", ""), row.replace("proto", "`engine/plan`"), ""):
            self.assertIn("according to SERVER_ENGINE_FOLDERS", check_layers.check_server_row(other)[0])

    def test_the_tuner_names_no_kernel(self):
        names = check_layers.kernel_names('  std::string_view name() const override { return "reference"; }\n'
                                          '  RowsKernel() : CudaKernel("fast_rows") {}\n'
                                          '  Parts() : GroupKernel("parts") {}\n')
        self.assertEqual(names, {"reference", "fast_rows", "parts"})
        for line in ['if (kernel.name() == "reference") return;', "// As fast_rows does.", 'kernel == "parts"']:
            with self.subTest(line=line):
                violations = check_layers.check_kernel_names("engine/tune/trial.cc", "// A file.\n" + line, names)
                self.assertEqual(len(violations), 1, violations)
                self.assertTrue(violations[0].startswith("engine/tune/trial.cc:2: "))
        self.assertEqual(check_layers.check_kernel_names("engine/tune/trial.cc", "// For reference, in parts.", names), [])

    def test_the_names_of_this_trees_kernels_are_found(self):
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
        names = set()
        for path in check_layers.source_files(root):
            if check_layers.KERNEL_SOURCES.match(path):
                found = check_layers.kernel_names(check_layers.read(root, path))
                if path.endswith("_kernel.cc") and "/groups/" not in path:
                    self.assertTrue(found, path)
                names |= found
        self.assertLessEqual({"reference", "simd_rows", "tiled_rows", "binned_rows", "neighbor_group"}, names)

    def test_functions_that_only_prefetch_are_inline_by_force(self):
        body = "    for (int64_t c = 0; c < width_; c += 16) hwy::Prefetch(row + c);\n  }\n"
        for head in ("  void Fetch(const float* row) const {\n", "  static void Fetch(const float* row, int64_t n) {\n",
                     "  HWY_NOINLINE void Fetch(const float* row,\n                          int64_t n) const {\n"):
            with self.subTest(head=head):
                violations = check_layers.check_prefetches("engine/kernels/cpu/a.h", head + body)
                self.assertEqual(len(violations), 1, violations)
                self.assertIn("must be VICINAL_INLINE", violations[0])
                inlined = head.replace("HWY_NOINLINE ", "").replace("void", "VICINAL_INLINE void").replace("static VICINAL_INLINE", "VICINAL_INLINE static")
                self.assertEqual(check_layers.check_prefetches("engine/kernels/cpu/a.h", inlined + body), [])
        for head in ("  HWY_NOINLINE void Build(float* to) {\n", "  VICINAL_INLINE const float* Row(int64_t e) const {\n"):
            with self.subTest(head=head):
                self.assertEqual(check_layers.check_prefetches("engine/kernels/cpu/a.h", head + body), [])

    def test_the_program_fails_on_a_violation_and_on_an_empty_tree(self):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_layers.py")
        with tempfile.TemporaryDirectory() as root:
            empty = subprocess.run([sys.executable, script, root], capture_output=True, text=True, check=False)
            self.assertEqual(empty.returncode, 1)
            os.makedirs(os.path.join(root, "engine", "base"))
            with open(os.path.join(root, "engine", "base", "a.h"), "w", encoding="utf-8") as file:
                file.write('#include "engine/graph/csr.h"\n')
            planted = subprocess.run([sys.executable, script, root], capture_output=True, text=True, check=False)
            self.assertEqual(planted.returncode, 1)
            self.assertIn("engine/base/a.h:1:", planted.stdout)
            self.assertIn("CONTRIBUTING.md: missing", planted.stdout)


if __name__ == "__main__":
    unittest.main()
