#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the bundles of this folder with litert-torch, and their logits with ai-edge-litert.

Usage: make_bundles.py WORK_FOLDER [NAME ...]      (needs litert-torch 0.10.0 and transformers 5.24.0)

Every model has random weights. The export is litert-torch's own; afterwards the names of tensors,
which nothing reads and which are most of such a small file, are shortened to t0, t1, ...
"""
import json
import pathlib
import shutil
import sys
import zlib

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter
from litert_lm_builder import litertlm_builder as builder

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "peers"))
from litert_model import MASKED, sections  # noqa: E402

VOCAB, CONTEXT, PREFILL = 64, 32, 4
IDS = [1, 17, 42, 5, 63, 8, 8, 30, 21, 11, 50, 3, 47, 26, 9, 38]
SHAPE = dict(vocab_size=VOCAB, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=4, max_position_embeddings=64, bos_token_id=1, eos_token_id=2,
             pad_token_id=2)
MODELS = {
    "llama": ("LlamaConfig", dict(tie_word_embeddings=True, rope_theta=10000.0)),
    "mistral": ("MistralConfig", dict(tie_word_embeddings=False, sliding_window=6)),
    "gemma3": ("Gemma3TextConfig", dict(sliding_window=6, layer_types=["sliding_attention", "full_attention"],
                                        query_pre_attn_scalar=4, tie_word_embeddings=True)),
}
BUNDLES = {
    "tokens-in-graph": ("llama", dict(externalize_embedder=False)),
    "bool-mask": ("llama", dict(use_sdpa_composite=True, use_bool_mask=True)),
    "gpu-composites": ("llama", dict(use_sdpa_composite=True)),
    "split-cache": ("llama", dict(split_cache=True)),
    "fp16-kv": ("llama", dict(experimental_use_fp16=True)),
    "weight-only-wi4": ("llama", dict(quantization_recipe="weight_only_wi4_afp32")),
    "mistral-window": ("mistral", {}),
    "gemma3-window": ("gemma3", {}),
}


def write_tokenizer(folder):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    names = {0: "<unk>", 1: "<s>", 2: "</s>"}
    core = Tokenizer(models.WordLevel({names.get(i, f"t{i}"): i for i in range(VOCAB)}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>", unk_token="<unk>",
                                   pad_token="</s>")
    fast.chat_template = ("{% for m in messages %}{{ m['role'] }} {{ m['content'] if m['content'] is string else "
                          "m['content'][0]['text'] }} {% endfor %}")
    fast.save_pretrained(folder)


def write_checkpoint(family, folder):
    import torch
    import transformers

    config, options = MODELS[family]
    torch.manual_seed(11)
    model = transformers.AutoModelForCausalLM.from_config(
        getattr(transformers, config)(**SHAPE, **options), torch_dtype=torch.float32).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            offset = 1 if "norm" in name and family != "gemma3" else 0
            scale = 0.2 if "norm" in name else 0.5 if "embed" in name and family != "gemma3" else 0.25
            p.copy_(offset + scale * torch.randn_like(p))
        logits = model(torch.tensor([IDS])).logits[0].numpy()
    model.save_pretrained(folder)
    write_tokenizer(folder)
    np.save(folder / "logits.npy", logits)


def export(name, work):
    family, options = BUNDLES[name]
    checkpoint = work / f"hf-{family}"
    if not (checkpoint / "logits.npy").exists():
        write_checkpoint(family, checkpoint)
    from litert_torch.generative.export_hf import export as export_hf

    (work / name).mkdir(parents=True, exist_ok=True)
    arguments = dict(prefill_lengths=[PREFILL], cache_length=CONTEXT, quantization_recipe="", externalize_embedder=True)
    arguments.update(options)
    export_hf.export(model=str(checkpoint), output_dir=str(work / name), **arguments)
    return work / name / "model.litertlm"


def shorten(data):
    model = schema.ModelT.InitFromPackedBuf(data, 0)
    for graph in model.subgraphs:
        for i, tensor in enumerate(graph.tensors):
            tensor.name = f"t{i}"
    b = flatbuffers.Builder(1 << 20)
    b.Finish(model.Pack(b), b"TFL3")
    return bytes(b.Output())


def repack(source, target, work):
    b = builder.LitertLmFileBuilder()
    b.add_system_metadata(builder.Metadata(key="Authors", value="litert-torch 0.10.0", dtype=builder.DType.STRING))
    types = {t.value.lower(): t for t in builder.TfLiteModelType}
    for i, (kind, items, data) in enumerate(sections(source)):
        path = work / (f"part{i}" + (".json" if kind == 6 else ""))
        path.write_bytes(zlib.decompress(data[8:]) if kind == 6 else shorten(data) if kind == 3 else data)
        if kind == 5:
            b.add_llm_metadata(str(path))
        elif kind == 9:
            b.add_executor_metadata(str(path))
        elif kind == 6:
            b.add_hf_tokenizer(str(path))
        else:
            prefer = {k: v for k, v in items.items() if k == "prefer_activation_type"}
            b.add_tflite_model(str(path), types[items["model_type"]], **prefer)
    with open(target, "wb") as f:
        b.build(f)


class Peer:
    """Runs a bundle with ai-edge-litert as LiteRT-LM drives it."""

    def __init__(self, path):
        parts = {items["model_type"]: Interpreter(model_content=data)
                 for kind, items, data in sections(path) if kind == 3}
        runners = lambda kind: {k: parts[kind].get_signature_runner(k)  # noqa: E731
                                for k in parts[kind].get_signature_list()} if kind in parts else {}
        self.keep = parts
        self.main = runners("tf_lite_prefill_decode")
        self.embedder = runners("tf_lite_embedder")
        self.aux = runners("tf_lite_aux")
        self.cache = {k: np.zeros(tuple(d["shape"]), d["dtype"])
                      for k, d in self.main["decode"].get_input_details().items() if k.startswith("kv_cache_")}
        self.position = 0

    def call(self, runner, known):
        return runner(**{k: np.asarray(known[k], d["dtype"]).reshape(tuple(d["shape"]))
                         for k, d in runner.get_input_details().items()})

    def feed(self, key, ids):
        runner = self.main[key]
        details = runner.get_input_details()
        length = 1 if key == "decode" else PREFILL
        count, start = len(ids), self.position
        padded = list(ids) + [0] * (length - count)
        known = dict(self.cache)
        known["tokens"] = known["input_tokens"] = padded
        known["input_pos"] = list(range(start, start + count)) + [0] * (length - count)
        known["param_tensor"] = [start, start + count, start + count, 0, 0, 0, 0]
        known["time_step"] = start
        known["valid_mask"] = [i < count for i in range(length)]
        if "mask" in details:
            seen = np.zeros((length, CONTEXT), bool)
            for row in range(count):
                seen[row, : start + row + 1] = True
            known["mask"] = seen if details["mask"]["dtype"] == np.bool_ else np.where(seen, np.float32(0), MASKED)
        if "embeddings" in details:
            rows = [self.call(self.embedder["decode_embedder"], {"token_ids": i})["embeddings"] for i in padded]
            known["embeddings"] = np.concatenate(rows, axis=1)
        suffix = "decode_{}" if key == "decode" else f"prefill_{{}}_{length}"
        if self.aux:
            known.update(self.call(self.aux[suffix.format("rope")], known))
            known.update(self.call(self.aux[suffix.format("mask")], known))
        out = self.call(runner, known)
        if self.aux:
            known.update(out)
            update = self.call(self.aux[suffix.format("cache_update")], known)
            self.cache = {k: update[k] for k in self.cache}
        else:
            self.cache = {k: out[k] for k in self.cache}
        self.position += count
        return out


def write_logits(bundle, target):
    alone = Peer(bundle)
    logits = np.stack([alone.feed("decode", [i])["logits"].reshape(-1) for i in IDS])
    both = Peer(bundle)
    both.feed(f"prefill_{PREFILL}", IDS[:4])
    both.feed(f"prefill_{PREFILL}", IDS[4:6])
    behind = np.stack([both.feed("decode", [i])["logits"].reshape(-1) for i in IDS[6:]])
    np.save(target, logits)
    return logits, float(np.abs(behind - logits[6:]).max())


def main():
    work = pathlib.Path(sys.argv[1])
    work.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or BUNDLES:
        folder = HERE / name
        folder.mkdir(exist_ok=True)
        source = work / name / "model.litertlm"
        repack(source if source.exists() else export(name, work), folder / "model.litertlm", work)
        float_logits = np.load(work / f"hf-{BUNDLES[name][0]}" / "logits.npy")
        shutil.copyfile(work / f"hf-{BUNDLES[name][0]}" / "logits.npy", folder / "float_logits.npy")
        try:
            logits, prefill = write_logits(folder / "model.litertlm", folder / "logits.npy")
        except RuntimeError as e:
            print(f"{name}: ai-edge-litert cannot run it: {e}", flush=True)
            continue
        print(f"{name}: {(folder / 'model.litertlm').stat().st_size} bytes, differs from transformers by "
              f"{np.abs(logits - float_logits).max():.2g}, prefill from decode by {prefill:.2g}, "
              f"largest logit {np.abs(logits).max():.3g}", flush=True)
    (HERE / "prompt.json").write_text(json.dumps({"prompt_ids": IDS}) + "\n")


if __name__ == "__main__":
    main()
