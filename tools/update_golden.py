#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Hone authors
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/testdata/families: tiny random checkpoints and what transformers computes for them.

A dev script. It needs its own venv:
    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install -r tools/requirements-golden.txt
    /tmp/golden/bin/python tools/update_golden.py [CASE ...]

Every case is a folder with config.json, model.safetensors (bfloat16), tokenizer.json and golden.json.
golden.json has prompts (ids, the positions whose logits are kept, the best id of every position),
and mutants: how far the kept logits move when one feature is computed wrongly. logits.npy has the kept
logits as float32, prompt after prompt. Windows and original lengths are shorter than the prompts, so
that every feature shows.
"""

import copy
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import safetensors.torch
import torch
import transformers

OUT = Path(__file__).resolve().parent.parent / "tests" / "testdata" / "families"
VOCAB = 128
LENGTHS = (6, 13, 40)

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


def base(architecture, model_type, **more):
    """The keys that nearly every config.json has, in the style of transformers 4."""
    config = {
        "architectures": [architecture],
        "model_type": model_type,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": VOCAB,
        "max_position_embeddings": 128,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "tie_word_embeddings": True,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "use_cache": True,
        "torch_dtype": "bfloat16",
    }
    config.update(more)
    return {key: value for key, value in config.items() if value is not ...}


# Eight numbers that grow, for the frequencies of LongRoPE.
def factors(count, first, step):
    return [round(first + step * i, 3) for i in range(count)]


VISION_PIXTRAL = {
    "model_type": "pixtral",
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "head_dim": 8,
    "image_size": 16,
    "patch_size": 8,
    "num_channels": 3,
}
VISION_SIGLIP = {
    "model_type": "siglip_vision_model",
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 16,
    "patch_size": 8,
    "vision_use_head": False,
}

GEMMA = {
    "hidden_act": ...,
    "hidden_activation": "gelu_pytorch_tanh",
    "head_dim": 16,
    "num_key_value_heads": 1,
    "intermediate_size": 32,
    "query_pre_attn_scalar": 20,
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
    "pad_token_id": 0,
}

# name -> (what it tests, config.json, mutants). A mutant is a dict of config keys to change.
CASES = {
    "granite": (
        "four multipliers (embedding, attention, residual, logits), tied head",
        base("GraniteForCausalLM", "granite", embedding_multiplier=6.0, attention_multiplier=0.2,
             residual_multiplier=0.4, logits_scaling=3.0, attention_bias=False, mlp_bias=False,
             rope_scaling=None),
        {"embedding_multiplier_1": {"embedding_multiplier": 1.0},
         "attention_multiplier_usual": {"attention_multiplier": 8**-0.5},
         "residual_multiplier_1": {"residual_multiplier": 1.0},
         "logits_scaling_1": {"logits_scaling": 1.0}},
    ),
    "gemma2": (
        "norms with 1 + w before and after, softcaps of scores and logits, a window in every other "
        "layer, head_dim and attention scale of their own, gelu, embedding times sqrt(hidden)",
        base("Gemma2ForCausalLM", "gemma2", **GEMMA, num_hidden_layers=3, sliding_window=8,
             attn_logit_softcapping=2.0, final_logit_softcapping=5.0, cache_implementation="hybrid",
             tie_word_embeddings=...),
        {"no_attention_softcap": {"attn_logit_softcapping": None},
         "no_logits_softcap": {"final_logit_softcapping": None},
         "no_window": {"sliding_window": 128},
         "usual_scale": {"query_pre_attn_scalar": 16},
         "silu": {"hidden_activation": "silu"}},
    ),
    "gemma3-text": (
        "q and k norm with 1 + w, windows by sliding_window_pattern, two ropes (the global one scaled)",
        base("Gemma3ForCausalLM", "gemma3_text", **GEMMA, num_hidden_layers=3, sliding_window=8,
             sliding_window_pattern=3, rope_theta=1000000.0, rope_local_base_freq=10000.0,
             rope_scaling={"rope_type": "linear", "factor": 8.0}, attn_logit_softcapping=None,
             final_logit_softcapping=None, cache_implementation="hybrid", tie_word_embeddings=...),
        {"no_window": {"sliding_window": 128},
         "window_7": {"sliding_window": 7},
         "one_theta": {"rope_local_base_freq": 1000000.0},
         "no_rope_scaling": {"rope_scaling": None}},
    ),
    "gemma3-nested": (
        "Gemma3ForConditionalGeneration in the style of transformers 5: text_config, rope_parameters "
        "by layer type, layer_types, tensors beside a vision tower",
        {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
         "boi_token_index": 4, "eoi_token_index": 5, "image_token_index": 6,
         "mm_tokens_per_image": 4, "initializer_range": 0.02, "dtype": "bfloat16",
         "tie_word_embeddings": True, "eos_token_id": [1, 2],
         "text_config": base(
             ..., "gemma3_text", **GEMMA, num_hidden_layers=2, sliding_window=8, bos_token_id=0,
             rope_theta=..., torch_dtype=..., dtype="bfloat16", use_bidirectional_attention=False,
             layer_types=["full_attention", "sliding_attention"], attn_logit_softcapping=None,
             final_logit_softcapping=None,
             rope_parameters={
                 "full_attention": {"rope_theta": 1000000.0, "rope_type": "default"},
                 "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}}),
         "vision_config": VISION_SIGLIP},
        {"layers_swapped": {"text_config.layer_types": ["sliding_attention", "full_attention"]}},
    ),
    "llama-falcon3": (
        "a LlamaForCausalLM with head_dim that is not hidden / heads (2 heads of 32, hidden 32)",
        base("LlamaForCausalLM", "llama", num_attention_heads=2, num_key_value_heads=1, head_dim=32,
             intermediate_size=32, rope_theta=1000042, rope_scaling=None, tie_word_embeddings=False, pretraining_tp=1,
             attention_bias=False, mlp_bias=False),
        {},
    ),
    "llama-linear": (
        "linear rope scaling under the old key type",
        base("LlamaForCausalLM", "llama", intermediate_size=32,
             rope_scaling={"type": "linear", "factor": 4.0}, pretraining_tp=1),
        {"no_scaling": {"rope_scaling": None}},
    ),
    "llama-ntk": (
        "dynamic NTK rope: prompts of 6 and 13 are within the 16 original positions, 40 is beyond",
        base("LlamaForCausalLM", "llama", intermediate_size=32, max_position_embeddings=16,
             rope_scaling={"type": "dynamic", "factor": 4.0}, pretraining_tp=1),
        {"no_scaling": {"rope_scaling": None},
         "linear": {"rope_scaling": {"type": "linear", "factor": 4.0}}},
    ),
    "ministral": (
        "a window in every other layer by layer_types, head_dim of its own",
        base("MinistralForCausalLM", "ministral", head_dim=16, intermediate_size=32, sliding_window=8,
             layer_types=["sliding_attention", "full_attention"], tie_word_embeddings=False),
        {"no_window": {"sliding_window": 128},
         "window_everywhere": {"layer_types": ["sliding_attention"] * 2}},
    ),
    "ministral3-nested": (
        "Mistral3ForConditionalGeneration: text_config, YaRN with mscale, query scaling that is 1 "
        "below the original length, tensors beside a vision tower",
        {"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3",
         "image_token_index": 6, "multimodal_projector_bias": False,
         "projector_hidden_act": "gelu", "spatial_merge_size": 2, "vision_feature_layer": -1,
         "dtype": "bfloat16", "tie_word_embeddings": False,
         "text_config": base(
             ..., "ministral3", rope_theta=..., torch_dtype=..., head_dim=8, intermediate_size=32,
             max_position_embeddings=768, sliding_window=None,
             tie_word_embeddings=False,
             rope_parameters={
                 "beta_fast": 32.0, "beta_slow": 1.0, "factor": 16.0, "llama_4_scaling_beta": 0.1,
                 "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 48,
                 "rope_theta": 1000000.0, "rope_type": "yarn", "type": "yarn"}),
         "vision_config": VISION_PIXTRAL},
        {"no_scaling": {"text_config.rope_parameters.factor": 1.0}},
    ),
    "mistral-nemo": (
        "head_dim of its own, no window, untied head",
        base("MistralForCausalLM", "mistral", head_dim=16, intermediate_size=32,
             tie_word_embeddings=False, sliding_window=None, rope_theta=1000000.0),
        {},
    ),
    "olmo2": (
        "norms only after attention and feed-forward, q and k norm over the whole row, untied head",
        base("Olmo2ForCausalLM", "olmo2", tie_word_embeddings=False, attention_bias=False,
             rms_norm_eps=1e-6, rope_theta=500000, intermediate_size=32, rope_scaling=None),
        {"eps_1e-3": {"rms_norm_eps": 1e-3}},
    ),
    "phi3-longrope": (
        "fused q/k/v and gate/up tensors, three quarters of each head rotate, LongRoPE by length: 6 "
        "and 13 use short_factor, 40 uses long_factor",
        base("Phi3ForCausalLM", "phi3", num_attention_heads=2, num_key_value_heads=1,
             intermediate_size=32, partial_rotary_factor=0.75, sliding_window=262144,
             original_max_position_embeddings=16, embd_pdrop=0.0, resid_pdrop=0.0, pad_token_id=1,
             rope_scaling={"type": "longrope", "short_factor": factors(6, 1.0, 0.1),
                           "long_factor": factors(6, 1.5, 0.9)},
             attention_bias=False, mlp_bias=False, lm_head_bias=False, full_attn_mod=1,
             interpolate_factor=1),
        {"always_long": {"rope_scaling.short_factor": factors(6, 1.5, 0.9)},
         "always_short": {"rope_scaling.long_factor": factors(6, 1.0, 0.1)},
         "no_magnitude": {"rope_scaling.attention_factor": 1.0}},
    ),
    "phi3-window": (
        "fused tensors, a window in every layer, plain rope, untied head",
        base("Phi3ForCausalLM", "phi3", intermediate_size=32, sliding_window=8, pad_token_id=1,
             original_max_position_embeddings=128, embd_pdrop=0.0, resid_pdrop=0.0,
             rope_scaling=None, tie_word_embeddings=False),
        {"no_window": {"sliding_window": None}},
    ),
    "qwen2-window": (
        "q, k and v biases, a window in layers from max_window_layers on",
        base("Qwen2ForCausalLM", "qwen2", num_hidden_layers=3, intermediate_size=32,
             use_sliding_window=True, sliding_window=8, max_window_layers=1, rope_theta=1000000.0,
             rms_norm_eps=1e-6),
        {"no_window": {"use_sliding_window": False},
         "window_everywhere": {"max_window_layers": 0}},
    ),
    "smollm3-interval": (
        "every second layer without rope, by no_rope_layer_interval, and windows in those",
        base("SmolLM3ForCausalLM", "smollm3", num_hidden_layers=3, intermediate_size=32,
             no_rope_layer_interval=2, use_sliding_window=True, sliding_window=8, pad_token_id=1,
             max_window_layers=28, attention_bias=False, mlp_bias=False, rope_scaling=None,
             rms_norm_eps=1e-6),
        {"rope_everywhere": {"no_rope_layers": [1, 1, 1]},
         "no_window": {"use_sliding_window": False}},
    ),
}


def drop_absent(config):
    """Removes keys whose value is `...` or a list with it."""
    return {key: drop_absent(value) if isinstance(value, dict) else value
            for key, value in config.items() if value is not ... and value != [...]}


def change(config, changes):
    config = copy.deepcopy(config)
    for path, value in changes.items():
        *outer, last = path.split(".")
        place = config
        for key in outer:
            place = place[key]
        place[last] = value
    return config


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1) + "\n")


def model_class(config):
    return getattr(transformers, config["architectures"][0])


def randomize(model, generator):
    """Values that make every tensor matter: rows keep the size of their input, norms differ from 1."""
    gemma = "Gemma" in type(model).__name__
    for name, parameter in sorted(model.named_parameters()):
        normal = torch.randn(parameter.shape, generator=generator)
        if name.endswith("norm.weight") or "layernorm" in name:
            value = (0.0 if gemma else 1.0) + 0.3 * normal
        elif name.endswith("bias"):
            value = 0.3 * normal
        elif "embed_tokens" in name:
            value = 0.6 * normal
        else:
            value = 1.3 * normal / parameter.shape[-1] ** 0.5
        parameter.data = value.to(torch.bfloat16)


def rename_nested(name):
    """The second style of names that published folders have for a model beside a vision tower."""
    if name.startswith("language_model.model."):
        return name.replace("language_model.model.", "model.language_model.", 1)
    if name.startswith("language_model.lm_head."):
        return name.removeprefix("language_model.")
    return "model." + name


def make_weights(config, folder, seed):
    """Saves the model as transformers does, with the tensor names that published folders have."""
    torch.manual_seed(seed)
    loaded = transformers.AutoConfig.from_pretrained(folder)
    model = model_class(config)(loaded)
    randomize(model, torch.Generator().manual_seed(seed))
    model.tie_weights()
    model = model.to(torch.bfloat16)
    with tempfile.TemporaryDirectory() as temporary:
        model.save_pretrained(temporary)
        tensors = safetensors.torch.load_file(Path(temporary) / "model.safetensors")
    if config["model_type"] == "mistral3":
        tensors = {rename_nested(key): value for key, value in tensors.items()}
    safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)


def kept_positions(length):
    return [3, length // 2, length - 1]


@torch.no_grad()
def compute(folder, config, prompts):
    """The kept rows and the best ids. A new model for each prompt: some keep what they saw."""
    rows, best = [], []
    for ids in prompts:
        model = model_class(config).from_pretrained(folder, dtype=torch.float32,
                                                    attn_implementation="eager")
        model.eval()
        logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float().numpy()
        rows.append(logits[kept_positions(len(ids))])
        best.append(logits.argmax(axis=-1).tolist())
    return np.concatenate(rows), best


def mutant_shift(folder, config, changes, prompts, logits):
    with tempfile.TemporaryDirectory() as temporary:
        temporary = Path(temporary)
        shutil.copy(folder / "model.safetensors", temporary)
        mutant = change(config, changes)
        write_json(temporary / "config.json", mutant)
        other, _ = compute(temporary, mutant, prompts)
    return round(float(np.abs(other - logits).max()), 4)


def token_text(i):
    if i < 2:
        return ["<s>", "</s>"][i]
    return chr(ord("a") + i - 2) if i < 28 else f"[{i}]"


def write_tokenizer(folder):
    """<s>, </s>, a to z, then names that no text is split into."""
    special = [{"id": i, "content": token_text(i), "single_word": False, "lstrip": False,
                "rstrip": False, "normalized": False, "special": True} for i in range(2)]
    vocab = {token_text(i): i for i in range(VOCAB)}
    text = json.dumps({"version": "1.0", "added_tokens": special,
                       "model": {"type": "BPE", "vocab": vocab, "merges": []}})
    (folder / "tokenizer.json").write_text(text + "\n")


def make_case(name, seed):
    what, config, mutants = CASES[name]
    config = drop_absent(config)
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", config)
    write_tokenizer(folder)
    make_weights(config, folder, seed)
    generator = torch.Generator().manual_seed(1000 + seed)
    prompts = [[0] + torch.randint(2, VOCAB, (n - 1,), generator=generator).tolist() for n in LENGTHS]
    logits, best = compute(folder, config, prompts)
    np.save(folder / "logits.npy", logits.astype(np.float32))
    golden = {
        "case": name,
        "what": what,
        "reference": f"transformers {transformers.__version__}, torch {torch.__version__}, float32, eager",
        "seed": seed,
        "logits_rows": "for each prompt the rows of its positions, in order",
        "prompts": [{"ids": ids, "positions": kept_positions(len(ids)), "argmax": ids_best}
                    for ids, ids_best in zip(prompts, best)],
        "mutants": {mutant: mutant_shift(folder, config, changes, prompts, logits)
                    for mutant, changes in mutants.items()},
    }
    text = json.dumps(golden, indent=1)
    (folder / "golden.json").write_text(text + "\n")
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{name}: {size} bytes, largest logit {np.abs(logits).max():.2f}, {golden['mutants']}")


def main():
    wanted = sys.argv[1:] or list(CASES)
    for name in wanted:
        make_case(name, 1 + list(CASES).index(name))


if __name__ == "__main__":
    main()
