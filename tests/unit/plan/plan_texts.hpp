#pragma once
// Plan texts of the format's description and of real checkpoints, as users write them.

#include <string_view>

namespace reshard::test {

struct PlanText {
  std::string_view name;
  std::string_view text;
};

inline constexpr PlanText kPlanTexts[] = {
    {"llama_tp2_to_tp4", R"yaml(reshard: 1
source: {axes: [tp=2]}
target: {axes: [tp=4]}
tensors:
  - {match: "**.q_proj.weight",           shard: {0: {axes: tp, unit: 128}}}
  - {match: "**.{k,v}_proj.weight",       shard: {0: {axes: tp, unit: 128, fallback: repeat}}}
  - {match: "**.o_proj.weight",           shard: {1: {axes: tp, unit: 128}}}
  - {match: "**.{gate,up}_proj.weight",   shard: {0: tp}}
  - {match: "**.down_proj.weight",        shard: {1: tp}}
  - {match: "{model.embed_tokens,lm_head}.weight", shard: {0: tp}}
  - {match: "**norm.weight"}
)yaml"},
    {"mixtral_expert_parallel", R"yaml(reshard: 1
source: {axes: [dp=4, tp=2], views: {expert: [ep=4, etp=2]}}
target: {axes: [dp=2, tp=4], views: {expert: [ep=2, etp=4]}}
tensors:
  - {match: "**.experts.*.{w1,w3}.weight", view: expert, owner: {ep: $2/8}, shard: {0: etp}}
  - {match: "**.experts.*.w2.weight",      view: expert, owner: {ep: $2/8}, shard: {1: etp}}
  - {match: "**.block_sparse_moe.gate.weight"}
  - {match: "**.{q,k,v}_proj.weight", shard: {0: {axes: tp, unit: 128}}}
  - {match: "**.o_proj.weight",       shard: {1: {axes: tp, unit: 128}}}
  - {match: "{model.embed_tokens,lm_head}.weight", shard: {0: tp}}
  - {match: "**norm.weight"}
)yaml"},
    {"megatron_gtp_to_tp4", R"yaml(reshard: 1
source: {axes: [gtp=3, tp=2]}
target: {axes: [tp=4]}
tensors:
  - {match: "**.linear_fc1.weight",  shard: {0: {axes: [tp, gtp], segments: [11008, 11008], pad_to: 16}}}
  - {match: "**.linear_fc2.weight",  shard: {1: tp, 0: {axes: gtp, pad_to: 16, size: 4096}}}
  - {match: "**.linear_qkv.weight",  shard: {0: {axes: [tp, gtp], unit: 384, pad_to: 16, size: 12288}}}
  - {match: "**.linear_proj.weight", shard: {1: {axes: tp, unit: 128}, 0: {axes: gtp, pad_to: 16, size: 4096}}}
  - {match: "{embedding.word_embeddings,output_layer}.weight", shard: {0: {axes: [tp, gtp], size: 32000, pad_total: 128, pad_to: 16}}}
  - {match: "**layernorm.weight"}
)yaml"},
    {"compressed_fp8_full_to_tp2",
     R"yaml(# compressed-tensors float-quantized, one scale per 16 x 16 block. The 16 KV rows are one block: whole on both ranks
reshard: 1
source: {axes: []}
target: {axes: [tp=2]}
tensors:
  - match: "**.{k,v}_proj"
    shard: {out: {axes: tp, unit: 16, fallback: repeat, size: 16}}
    members: {weight: out in, weight_scale: out/16 in/16}
  - match: "**.{q,gate,up}_proj"
    shard: {out: tp}
    members: {weight: out in, weight_scale: out/16 in/16}
  - match: "**.{o,down}_proj"
    shard: {in: tp}
    members: {weight: out in, weight_scale: out/16 in/16}
  - {match: "{model.embed_tokens,lm_head}.weight", shard: {0: tp}}
  - {match: "**norm.weight"}
)yaml"},
    {"compressed_int4_full_to_tp2",
     R"yaml(# compressed-tensors pack-quantized: 8 values per 32-bit word and one scale per 16 values along `in`; weight_shape is a small I64 tensor
reshard: 1
source: {axes: []}
target: {axes: [tp=2]}
tensors:
  - match: "**.{q,k,v}_proj"
    shard: {out: {axes: tp, unit: 8}}
    members: {weight_packed: out in/8, weight_scale: out in/16, weight_shape: "."}
  - match: "**.{gate,up}_proj"
    shard: {out: tp}
    members: {weight_packed: out in/8, weight_scale: out in/16, weight_shape: "."}
  - match: "**.{o,down}_proj"
    shard: {in: tp}
    members: {weight_packed: out in/8, weight_scale: out in/16, weight_shape: "."}
  - {match: "{model.embed_tokens,lm_head}.weight", shard: {0: tp}}
  - {match: "**norm.weight"}
)yaml"},
    {"dtensor_dtensor_ab", R"yaml(# torch DTensor on a 2 x 2 mesh, placements as PyTorch writes them
reshard: 1
source: {axes: []}
target: {axes: [a=2, b=2]}
unmatched: drop
tensors:
  - {match: s0_s0,  place: {a: shard(0), b: shard(0)}}
  - {match: s0_s1,  place: {a: shard(0), b: shard(1)}}
  - {match: s1_s0,  place: {a: shard(1), b: shard(0)}}
  - {match: r_s1,   place: {a: replicate, b: shard(1)}}
  - {match: s0_r,   place: {a: shard(0)}}
  - {match: x02_s0, place: {a: "strided_shard(0, 2)", b: shard(0)}}
  - {match: x12_s1, place: {a: "strided_shard(1, 2)", b: shard(1)}}
  - {match: sm1_r,  place: {a: shard(-1), b: replicate}}
  - {match: s2_s0_3d, place: {a: shard(2), b: shard(0)}}
  - {match: ragged_s0_s0, shard: {0: {axes: [{axis: a, split: chunk}, {axis: b, split: chunk}]}}}
  # what strided_shard means to PyTorch where no axis to the right has that size: k equal segments
  - {match: s0_x02, shard: {0: [a, {axis: b, stride: 2}]}}
  - {match: x02_r,  shard: {0: {axes: a, stride: 2}}}
  - {match: x03_s1, shard: {0: {axes: a, stride: 3}, 1: b}}
)yaml"},
    {"dtensor_dtensor_t",
     R"yaml(# torch DTensor on a mesh of 4: uneven dims are cut in ceil-sized chunks, the last ones short or empty
reshard: 1
source: {axes: []}
target: {axes: [t=4]}
unmatched: drop
tensors:
  - {match: ragged_s0,    shard: {0: {axes: t, split: chunk}}}
  - {match: ragged_short, shard: {0: {axes: t, split: chunk}}}
  - {match: t_x02,        shard: {0: {axes: t, stride: 2}}}
  - {match: t_x14,        shard: {1: {axes: t, stride: 4}}}
  - {match: bf16_s1,      place: {t: shard(1)}}
  - {match: "{i64,bool}_s0", place: {t: shard(0)}}
  - {match: "{scalar,empty}"}
)yaml"},
    {"h5_keras_weights_full_to_tp2",
     R"yaml(# Keras Dense kernels are [in, out]: dense_a by columns, dense_b by rows, batch normalisation follows dense_a
reshard: 1
source: {axes: []}
target: {axes: [tp=2]}
tensors:
  - {match: "layers/dense/vars/0",   shard: {1: tp}}
  - {match: "layers/dense/vars/1",   shard: {0: tp}}
  - {match: "layers/batch_normalization/vars/{0,1,2,3}", shard: {0: tp}}
  - {match: "layers/dense_1/vars/0", shard: {0: tp}}
  - {match: "layers/dense_1/vars/1"}
)yaml"},
    {"llama_full_to_fsdp2tp2",
     R"yaml(# transformers DistributedConfig(fsdp_size=2, tp_size=2): placements as DTensor prints them
reshard: 1
source: {axes: []}
target: {axes: [fsdp=2, tp=2]}
tensors:
  - {match: "**.{q,k,v,gate,up}_proj.weight", place: {fsdp: "strided_shard(0, 2)", tp: shard(0)}}
  - {match: "**.{o,down}_proj.weight",        place: {fsdp: shard(0), tp: shard(1)}}
  - {match: "{model.embed_tokens,lm_head}.weight", place: {fsdp: "strided_shard(0, 2)", tp: shard(0)}}
  - {match: "**norm.weight",                  place: {fsdp: shard(0)}}
)yaml"},
    {"llama_full_to_tp2", R"yaml(# Llama with grouped-query attention: 8 query heads, 2 KV heads of 8 elements
reshard: 1
source: {axes: []}
target: {axes: [tp=2]}
tensors:
  - {match: "**.q_proj.weight",         shard: {0: {axes: tp, unit: 8}}}
  - {match: "**.{k,v}_proj.weight",     shard: {0: {axes: tp, unit: 8, fallback: repeat, size: 16}}}
  - {match: "**.o_proj.weight",         shard: {1: {axes: tp, unit: 8}}}
  - {match: "**.{gate,up}_proj.weight", shard: {0: tp}}
  - {match: "**.down_proj.weight",      shard: {1: tp}}
  - {match: "{model.embed_tokens,lm_head}.weight", shard: {0: tp}}
  - {match: "**norm.weight"}
)yaml"},
    {"llama_ragged_full_to_tp2",
     R"yaml(# Vocabulary 101 and 90 MLP rows do not divide: torch and transformers give the first ranks ceil(D/n) rows
reshard: 1
source: {axes: []}
target: {axes: [tp=2]}
tensors:
  - {match: "**.{q,k,v,gate,up}_proj.weight", shard: {0: {axes: tp, split: chunk}}}
  - {match: "**.{o,down}_proj.weight",        shard: {1: {axes: tp, split: chunk}}}
  - {match: "{model.embed_tokens,lm_head}.weight", shard: {0: {axes: tp, split: chunk}}}
  - {match: "**norm.weight"}
)yaml"},
    {"mamba2_full_to_tp2",
     R"yaml(# Mamba 2: in_proj is [z 128, x 128, B 32, C 32, dt 8]; conv1d runs over [x, B, C]; 2 groups of state 16, 8 heads of 16
reshard: 1
source: {axes: []}
target: {axes: [tp=2]}
tensors:
  - {match: "**.mixer.in_proj.weight",  shard: {0: {axes: tp, segments: [128, 128, 32, 32, 8]}}}
  - {match: "**.mixer.conv1d.{weight,bias}", shard: {0: {axes: tp, segments: [128, 32, 32]}}}
  - {match: "**.mixer.{A_log,D,dt_bias}", shard: {0: tp}}
  - {match: "**.mixer.norm.weight",     shard: {0: {axes: tp, unit: 16}}}
  - {match: "**.mixer.out_proj.weight", shard: {1: {axes: tp, unit: 16}}}
  - {match: "{backbone.embeddings,lm_head}.weight", shard: {0: tp}}
  - {match: "**.{norm,norm_f}.weight"}
)yaml"},
    {"megatron_tp2_tp2_to_full",
     R"yaml(# megatron-core GPT at TP 2 as its ranks store it, to one full file. linear_qkv holds 4 query groups of (2 q + 1 k + 1 v)
# heads of 8 = 32 rows each; linear_fc1 is [gate, up] on every rank; the vocabulary of 101 is padded to a multiple of 8 x TP
reshard: 1
source: {axes: [tp=2]}
target: {axes: []}
tensors:
  - {match: "{embedding.word_embeddings,output_layer}.weight", shard: {0: {axes: tp, size: 101, pad_total: 8}}}
  - {match: "**.linear_qkv.{weight,bias}", shard: {0: {axes: tp, unit: 32}}}
  - {match: "**.linear_proj.weight",       shard: {1: {axes: tp, unit: 16}}}
  - {match: "**.linear_fc1.weight",        shard: {0: {axes: tp, segments: [96, 96]}}}
  - {match: "**.linear_fc2.weight",        shard: {1: tp}}
  - {match: "**layernorm.weight"}
)yaml"},
    {"mixtral_fused_full_to_tp2", R"yaml(# All experts in one 3-D tensor [expert, 2 x 96, 64], gate rows before up rows
reshard: 1
source: {axes: []}
target: {axes: [tp=2]}
tensors:
  - {match: "**.experts.gate_up_proj",  shard: {1: {axes: tp, segments: [96, 96]}}}
  - {match: "**.experts.down_proj",     shard: {2: tp}}
  - {match: "**.mlp.gate.weight"}
  - {match: "**.{q,k,v}_proj.weight",   shard: {0: {axes: tp, unit: 8}}}
  - {match: "**.o_proj.weight",         shard: {1: {axes: tp, unit: 8}}}
  - {match: "{model.embed_tokens,lm_head}.weight", shard: {0: tp}}
  - {match: "**norm.weight"}
)yaml"},
    {"phi3_full_to_tp2", R"yaml(# Phi-3: qkv_proj is [q 64, k 16, v 16], gate_up_proj is [gate 96, up 96]
reshard: 1
source: {axes: []}
target: {axes: [tp=2]}
tensors:
  - {match: "**.qkv_proj.weight",     shard: {0: {axes: tp, segments: [64, 16, 16], unit: 8, fallback: repeat}}}
  - {match: "**.o_proj.weight",       shard: {1: {axes: tp, unit: 8}}}
  - {match: "**.gate_up_proj.weight", shard: {0: {axes: tp, segments: [96, 96]}}}
  - {match: "**.down_proj.weight",    shard: {1: tp}}
  - {match: "{model.embed_tokens,lm_head}.weight", shard: {0: tp}}
  - {match: "**norm.weight"}
)yaml"},
};

}  // namespace reshard::test
