// SPDX-License-Identifier: Apache-2.0
#include "engine/model/expressions/torch_words.h"

#include <cstddef>
#include <string>

namespace vicinal::internal {
namespace {

struct Advice {
  std::string_view words;  // between single spaces, one before the first and after the last
  std::string_view write;
};

constexpr Advice kFunctions[] = {
    {" pow float_power power ",
     "write square(a) for pow(a, 2), sqrt(a) for pow(a, 0.5), and exp(p * log(a)) for other powers of a > 0"},
    {" softmax log_softmax softmin scatter_softmax edge_softmax ",
     "a softmax over the in-edges of a node is \"aggr\": \"softmax\", with the expression of its scores as the "
     "argument "
     "score and what is weighted as message; over columns write exp(a) / sum(exp(a))"},
    {" norm vector_norm ", "write sqrt(sum(square(a))) for the norm of a's columns"},
    {" normalize ", "write a / max(sqrt(sum(square(a))), 1e-12) for a row of norm 1"},
    {" pairwise_distance cdist dist ", "write sqrt(sum(square(a - b))) for a distance"},
    {" cosine_similarity ", "write dot(a, b) * rsqrt(sum(square(a)) * sum(square(b)))"},
    {" matmul mm bmm einsum inner addmm ",
     "write linear(a, W) for a product with a tensor W [out, in], and dot(a, b) or dot(a, b, heads) for one of two "
     "values"},
    {" concat concatenate hstack column_stack stack ", "write cat(a, b, ...)"},
    {" view reshape unsqueeze squeeze expand expand_as flatten transpose permute t contiguous chunk split unbind ",
     "a value is a row of columns without further dimensions: heads stand side by side, a[0:8] takes columns, and "
     "repeat(a, n) puts a score per head beside its n columns"},
    {" repeat_interleave ", "write repeat(a, n), which repeats each column"},
    {" dropout dropout_ ", "nothing is dropped at inference: leave it out"},
    {" detach clone float double half to type_as item cpu cuda requires_grad_ ",
     "values are float32 and stay where they are: leave it out"},
    {" scatter scatter_ scatter_add scatter_sum scatter_mean scatter_max segment_csr propagate aggregate "
     "index_add index_select gather global_add_pool global_mean_pool ",
     "messages are reduced by the argument aggr; the reduced ones are the variable aggr of update"},
    {" where gt lt ge le eq ne masked_fill heaviside sign ",
     "there are no comparisons; relu, clamp, threshold, min and max choose by size"},
    {" sin cos tan sinh cosh atan asin acos erf floor ceil round fmod ",
     "there is no such function; send what it computes of edges in edge_attr, of nodes in the features"},
    {" mul multiply ", "write a * b"},
    {" add ", "write a + b"},
    {" sub subtract ", "write a - b"},
    {" div divide true_divide ", "write a / b"},
    {" neg negative ", "write -a"},
    {" reciprocal ", "write 1 / a"},
    {" log1p ", "write log(1 + a)"},
    {" expm1 ", "write exp(a) - 1"},
    {" log2 ", "write log(a) / 0.6931471805599453"},
    {" log10 ", "write log(a) / 2.302585092994046"},
    {" maximum amax fmax ", "write max(a, b)"},
    {" minimum amin fmin ", "write min(a, b)"},
    {" clip clamp_min clamp_max ", "write clamp(a, low, high), max(a, low) or min(a, high)"},
    {" absolute fabs ", "write abs(a)"},
    {" expit logistic ", "write sigmoid(a)"},
    {" swish ", "write silu(a)"},
    {" prelu ", "write max(a, 0) + weight * min(a, 0)"},
    {" log_sigmoid ", "write logsigmoid(a)"},
    {" var std ",
     "write mean(square(a - mean(a))) for the variance of a's columns; over edges it is the argument aggr"},
    {" layer_norm ", "write (a - mean(a)) * rsqrt(mean(square(a - mean(a))) + 1e-5) * weight + bias"},
    {" prod cumsum topk sort argmax ", "there is no such function; sum, mean and dot go over columns"},
    {" degree ", "write degree_i, degree_j, or degree in update, for the number of in-edges"},
    {" len size shape dim numel ", "the widths of values are known: write the number of columns"},
    {" zeros ones zeros_like ones_like full full_like tensor as_tensor Parameter ",
     "write the number alone, which meets every column, or the name of a tensor of the weights file"},
};

constexpr Advice kWords[] = {
    {" return ", "the text ends with its value: leave return out"},
    {" def lambda class import from for while with ", "there are no statements but name = expression;"},
    {" if else and or not is in ", "there are no comparisons; relu, clamp, threshold, min and max choose by size"},
    {" None True False ", "a value is a number, a variable, a tensor or an expression of these"},
    {" T mT H ", "a value is a row; write linear(a, W) for a product with W [out, in]"},
    {" shape size ", "the widths of values are known: write the number of columns"},
    {" pi ", "write 3.141592653589793"},
    {" index ptr size_i edge_index edge_index_i edge_index_j row col dim_size ",
     "which edge a message is of is no value; the argument aggr reduces by target, and degree_i and degree_j count "
     "edges"},
    {" x_src x_source src ", "write x_j for the rows of sources"},
    {" x_dst x_target dst ", "write x_i for the rows of targets"},
    {" alpha ", "attention is \"aggr\": \"softmax\" with the expression of its scores as the argument score"},
    {" out aggr_out inputs aggregated ", "the reduced messages are aggr, in update"},
    {" norm edge_norm ", "GCN's weights are edge_weight, with the argument normalize"},
};

template <size_t n>
std::string_view Find(const Advice (&table)[n], std::string_view word) {
  const std::string whole = " " + std::string(word) + " ";
  for (const Advice& advice : table) {
    if (advice.words.find(whole) != std::string_view::npos) return advice.write;
  }
  return {};
}

}  // namespace

std::string_view InsteadOfTorch(std::string_view function) { return Find(kFunctions, function); }
std::string_view InsteadOfPython(std::string_view word) { return Find(kWords, word); }

}  // namespace vicinal::internal
