"""Tiny random transformers models with a real trained tokenizer, written to a folder in well under a second.

Encoder kinds: ``bert`` (WordPiece, [CLS] and [SEP]). Causal kinds: ``llama`` (byte BPE, begins with <s>, no padding
token), ``qwen2`` (byte BPE, adds no special token), ``gpt2``, ``opt`` (learned positions with an offset), ``gpt-neox``
(parallel attention and feed-forward), ``mistral`` and ``gemma2`` (SentencePiece-style BPE that puts a space before
every text; attention windows shorter than a long text; gemma2 scales its embeddings).
"""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CORPUS = [
    "The boundary layer on a flat plate grows with the distance from its leading edge.",
    "Heat transfer at supersonic speed was measured in the wind tunnel for several angles of attack.",
    "A library keeps documents and answers questions about them on your own machine.",
    "Who wrote the report, when was it written and what does it say about the wing?",
    "문서를 색인하고 질문에 답합니다. 회의는 화요일 오후 세 시에 열립니다.",
    "Numbers such as 1,024 and 3.14 stand in tables; code looks like def main(argv): return 0.",
]
WIDTH = 32
LAYERS = 3
WINDOW = 128


def write(kind: str, folder: Path, *, seed: int = 0, **config: int) -> Path:
    """Write a random model of `kind` to `folder`; `config` overrides values of its transformers configuration."""
    import torch
    from transformers import AutoModel, AutoModelForCausalLM

    tokenizer = KINDS[kind][0]()
    configuration = KINDS[kind][1](tokenizer, config)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        causal = kind != "bert"
        model = (AutoModelForCausalLM if causal else AutoModel).from_config(configuration)
        # Default initialisation is so small that all texts come out nearly equal; spread the weights.
        for parameter in model.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)
    return folder


def train_word_piece(size: int = 400):
    """A lower-casing WordPiece tokenizer with BERT's special tokens, as transformers loads it."""
    from transformers import BertTokenizerFast

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=size, special_tokens=special))
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return BertTokenizerFast(tokenizer_object=tokenizer, model_max_length=WINDOW)


def train_byte_bpe(*, begins: bool, pads: bool = True, size: int = 500):
    """A byte-level BPE tokenizer; `begins` puts ``<s>`` before every text, `pads` gives it a padding token."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<s>", "</s>", "<pad>"]
    tokenizer.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(
            vocab_size=size, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
        ),
    )
    byte_level = processors.ByteLevel(trim_offsets=True)
    template = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 0)])
    tokenizer.post_processor = processors.Sequence([byte_level, template]) if begins else byte_level
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>" if pads else None,
        model_max_length=WINDOW,
    )


def train_sentence_piece(size: int = 800):
    """A BPE tokenizer as SentencePiece models come: a space put before every text, no pre-tokenizing, byte fallback."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    special = ["<s>", "</s>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    # Training alone needs the words apart: a merge across them would be a whole sentence.
    tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=size, special_tokens=special))
    tokenizer.pre_tokenizer = None
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 0)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>", model_max_length=WINDOW
    )


def _bert(tokenizer, config):
    from transformers import BertConfig

    return BertConfig(
        **{
            "vocab_size": len(tokenizer),
            "hidden_size": WIDTH,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": 4,
            "intermediate_size": 2 * WIDTH,
            "max_position_embeddings": WINDOW,
            **config,
        }
    )


def _llama_like(name):
    def build(tokenizer, config):
        import transformers

        return getattr(transformers, name)(
            **{
                "vocab_size": len(tokenizer),
                "hidden_size": WIDTH,
                "num_hidden_layers": LAYERS,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "intermediate_size": 2 * WIDTH,
                "max_position_embeddings": WINDOW,
                "bos_token_id": 0,
                "eos_token_id": 1,
                **config,
            }
        )

    return build


def _gpt2(tokenizer, config):
    from transformers import GPT2Config

    return GPT2Config(
        **{
            "vocab_size": len(tokenizer),
            "n_embd": WIDTH,
            "n_layer": LAYERS,
            "n_head": 4,
            "n_positions": WINDOW,
            "bos_token_id": 0,
            "eos_token_id": 1,
            **config,
        }
    )


def _opt(tokenizer, config):
    from transformers import OPTConfig

    return OPTConfig(
        **{
            "vocab_size": len(tokenizer),
            "hidden_size": WIDTH,
            "word_embed_proj_dim": WIDTH,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": 4,
            "ffn_dim": 2 * WIDTH,
            "max_position_embeddings": WINDOW,
            "bos_token_id": 0,
            "eos_token_id": 1,
            "pad_token_id": 2,
            **config,
        }
    )


def _gpt_neox(tokenizer, config):
    from transformers import GPTNeoXConfig

    return GPTNeoXConfig(
        **{
            "vocab_size": len(tokenizer),
            "hidden_size": WIDTH,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": 4,
            "intermediate_size": 2 * WIDTH,
            "max_position_embeddings": WINDOW,
            "bos_token_id": 0,
            "eos_token_id": 1,
            **config,
        }
    )


def _windowed(name):
    build = _llama_like(name)
    return lambda tokenizer, config: build(tokenizer, {"sliding_window": 40, "head_dim": WIDTH // 4, **config})


KINDS = {
    "bert": (train_word_piece, _bert),
    "llama": (lambda: train_byte_bpe(begins=True, pads=False), _llama_like("LlamaConfig")),
    "qwen2": (lambda: train_byte_bpe(begins=False), _llama_like("Qwen2Config")),
    "gpt2": (lambda: train_byte_bpe(begins=False, pads=False), _gpt2),
    "opt": (lambda: train_byte_bpe(begins=True), _opt),
    "gpt-neox": (lambda: train_byte_bpe(begins=False), _gpt_neox),
    "mistral": (train_sentence_piece, _windowed("MistralConfig")),
    "gemma2": (train_sentence_piece, _windowed("Gemma2Config")),
}
