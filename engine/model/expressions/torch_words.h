// SPDX-License-Identifier: Apache-2.0
// Functions and members of PyTorch that expressions do not have, and what to write for them.
#ifndef VICINAL_ENGINE_MODEL_EXPRESSIONS_TORCH_WORDS_H_
#define VICINAL_ENGINE_MODEL_EXPRESSIONS_TORCH_WORDS_H_

#include <string_view>

namespace vicinal::internal {

// For a call of `function`, without its module or object. Empty: nothing is known of it.
std::string_view InsteadOfTorch(std::string_view function);
// For a word of Python's own, and for members of tensors.
std::string_view InsteadOfPython(std::string_view word);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_EXPRESSIONS_TORCH_WORDS_H_
