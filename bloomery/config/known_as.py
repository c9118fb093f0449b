"""Names that Megatron-LM, DeepSpeed, torchtitan and transformers give to keys of this configuration.

The error message of an unknown key with one of these names suggests the key that was probably meant. The names are in
lower case with underscores. A name may start with its section, as in `zero_optimization.stage`.
"""

from __future__ import annotations

_BATCHES = "the suggested key takes a number of samples: iterations x training.batch.global_batch_size"
_WARMUP = f"{_BATCHES}; to state the warm-up in iterations, use training.batch_scaling.warmup_iterations"
_PRECISION = "the suggested key takes 'bf16', 'fp16' or 'fp32'"

KNOWN_AS: dict[str, tuple[str, ...]] = {
    # shape of the model
    "model.layers": ("num_layers", "n_layer", "n_layers", "num_hidden_layers", "depth", "encoder_num_layers"),
    "model.decoder_layers": ("decoder_num_layers", "num_decoder_layers"),
    "model.hidden_size": ("n_embd", "n_embed", "hidden_dim", "d_model", "dim", "embed_dim", "hidden", "width"),
    "model.heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"),
    "model.feed_forward_size": ("ffn_hidden_size", "intermediate_size", "n_inner", "d_ff", "ffn_dim", "ffn_size"),
    "model.sequence_length": (
        *("seq_length", "seq_len", "max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "context_length"),
        *("max_sequence_length", "block_size", "encoder_seq_length", "model_max_length"),
    ),
    "model.decoder_sequence_length": ("decoder_seq_length",),
    "model.positions": ("position_embedding_type", "position_embeddings", "position_embedding", "alibi"),
    "model.rotary_base": ("rope_theta", "rope_base", "rotary_emb_base"),
    "model.activation": ("hidden_act", "activation_function", "swiglu", "act_fn", "glu_activation"),
    "model.tied_embeddings": ("tie_word_embeddings", "untie_embeddings_and_output_weights", "tie_embeddings"),
    "model.embedding_layernorm": ("embed_layernorm", "embedding_layer_norm"),
    "model.layer_norm_epsilon": ("norm_epsilon", "layernorm_epsilon", "layer_norm_eps", "norm_eps", "rms_norm_eps"),
    "model.init_std": ("init_method_std", "initializer_range"),
    "model.vocabulary_multiple": ("make_vocab_size_divisible_by", "pad_to_multiple_of"),
    "model.padded_vocabulary_size": ("padded_vocab_size", "pad_vocab_size_to"),
    # tokenizer and data
    "tokenizer.vocabulary_size": ("vocab_size", "n_vocab", "vocab", "vocabulary", "target_vocab_size"),
    "tokenizer.existing": ("tokenizer_path", "tokenizer_model", "tokenizer_name_or_path", "pretrained_tokenizer"),
    "tokenizer.end_of_document": ("eos_token", "eod_token"),
    "sources[].paths": ("data_path", "data_files", "train_data_path", "dataset_path"),
    "sources[].text_field": ("json_keys", "text_key", "text_column", "content_field"),
    "index.blend": ("train_weighted_split_paths", "data_blend"),
    "index.validation_share": ("valid_split", "validation_split", "eval_split"),
    "corpus.mixture.alpha": ("sampling_alpha",),
    # batch and length
    "training.batch.micro_batch_size": (
        *("micro_batch", "mbs", "train_micro_batch_size_per_gpu", "per_device_train_batch_size", "local_batch_size"),
        "microbatch_size",
    ),
    "training.batch.global_batch_size": ("global_batch", "gbs", "train_batch_size", "batch_size"),
    "training.batch.rampup": ("rampup_batch_size", "batch_rampup", "batch_size_rampup"),
    "training.train_samples": (
        *("train_iters", "max_steps", "training_steps", "num_train_steps", "steps", "total_steps", "train_steps"),
        *("iterations", "max_iters"),
    ),
    "training.train_epochs": ("num_train_epochs", "num_epochs", "max_epochs", "epochs", "n_epochs"),
    "training.train_tokens": ("max_tokens", "total_tokens"),
    "training.curriculum": ("curriculum_learning",),
    # layout
    "training.parallel.tensor": (
        *("tp", "tensor_model_parallel_size", "tensor_parallel_degree", "tp_size", "tensor_parallel_size"),
        *("tensor_parallel", "model_parallel_size"),
    ),
    "training.parallel.pipeline": (
        *("pp", "pipeline_model_parallel_size", "pipeline_parallel_degree", "pp_size", "pipeline_parallel_size"),
        "pipeline_parallel",
    ),
    "training.parallel.data": (
        *("dp", "data_parallel_size", "dp_size", "data_parallel_replicate_degree", "data_parallel"),
        "data_parallel_shard_degree",
    ),
    "training.parallel.sequence_parallel": ("sp",),
    # optimizer
    "training.optimizer.learning_rate": ("lr", "max_lr", "peak_lr"),
    "training.optimizer.min_learning_rate": ("min_lr", "lr_min"),
    "training.optimizer.warmup_samples": (
        *("warmup", "lr_warmup_iters", "lr_warmup_samples", "warmup_steps", "warmup_iters", "lr_warmup_fraction"),
        *("warmup_ratio", "num_warmup_steps", "warmup_num_steps"),
    ),
    "training.optimizer.warmup_tokens": ("lr_warmup_tokens",),
    "training.optimizer.decay_samples": ("lr_decay_iters", "lr_decay_samples", "decay_steps"),
    "training.optimizer.decay_tokens": ("lr_decay_tokens",),
    "training.optimizer.schedule": ("lr_decay_style", "lr_scheduler_type", "lr_scheduler", "decay_type", "scheduler"),
    "training.optimizer.cooldown_samples": ("lr_wsd_decay_samples", "lr_wsd_decay_iters", "cooldown"),
    "training.optimizer.kind": ("optimizer_type", "optim"),
    "training.optimizer.beta1": ("adam_beta1", "betas"),
    "training.optimizer.beta2": ("adam_beta2",),
    "training.optimizer.epsilon": ("adam_eps", "adam_epsilon", "eps"),
    "training.optimizer.weight_decay": ("wd",),
    "training.optimizer.gradient_clipping": ("clip_grad", "grad_clip", "max_grad_norm", "max_norm", "clip"),
    "training.optimizer.momentum": ("sgd_momentum",),
    "training.dropout.attention": ("attention_dropout", "attn_dropout", "attn_pdrop"),
    "training.dropout.hidden": ("hidden_dropout", "resid_pdrop", "embd_pdrop", "dropout_rate"),
    # precision and memory
    "training.precision": ("bf16", "fp16", "fp32", "dtype", "torch_dtype", "mixed_precision", "params_dtype"),
    "training.zero_stage": ("zero", "zero_optimization", "zero_optimization.stage"),
    "training.activation_checkpointing": (
        *("activation_checkpoint", "recompute_granularity", "recompute_activations", "gradient_checkpointing"),
        *("checkpoint_activations", "recompute"),
    ),
    "training.gradient_accumulation": ("accumulate_allreduce_grads_in_fp32", "grad_accum_dtype"),
    "training.loss_scale.initial_power": ("initial_scale_power", "initial_loss_scale"),
    "training.loss_scale.window_iterations": ("loss_scale_window",),
    "training.loss_scale.minimum": ("min_loss_scale",),
    "training.partition": ("partition_method", "pp_partition_method"),
    "training.kernels.attention": ("attn_implementation", "attention_backend", "use_flash_attn", "flash_attention"),
    "training.kernels.compile": ("torch_compile",),
    "training.initial_checkpoint": ("load", "finetune", "init_checkpoint", "pretrained_checkpoint", "resume_from"),
    "training.peak_tflops": ("peak_flops",),
    # course of the training
    "training.checkpoint.every_iterations": (
        *("save_interval", "save_steps", "checkpoint_interval", "save_every", "ckpt_interval"),
        "checkpoint_every",
    ),
    "training.checkpoint.keep_last": ("save_total_limit", "keep_latest_k"),
    "training.checkpoint.asynchronous": ("async_save", "async_mode"),
    "training.validation.every_iterations": ("eval_interval", "eval_steps", "val_interval", "eval_every"),
    "training.validation.samples": ("eval_iters", "eval_samples"),
    "training.segment.minutes": ("exit_duration_in_mins",),
    "training.segment.iterations": ("exit_interval",),
    "training.skip": ("skip_train_iteration_range", "skip_ranges"),
    "training.on_change": ("override_opt_param_scheduler",),
    "seed": ("random_seed", "manual_seed"),
    # corpus
    "corpus.dedup.near.min_jaccard": ("jaccard_threshold", "similarity_threshold"),
    "corpus.dedup.near.bands": ("num_buckets", "num_bands"),
    "corpus.dedup.near.rows": ("hashes_per_bucket",),
    "corpus.dedup.near": ("minhash",),
    "corpus.language_id.min_share": ("language_threshold",),
    "corpus.judge.thresholds": ("filters", "quality_filters"),
    # delivery
    "export.dtype": ("export_dtype",),
    "publish.hub": ("push_to_hub",),
    "publish.model_repository": ("hub_model_id", "repo_id"),
    "publish.private": ("hub_private_repo",),
    "publish.owner": ("hub_organization", "organization"),
    "root": ("output_dir", "save", "save_dir", "out_dir"),
    "name": ("run_name", "experiment_name", "job_name"),
}
"""Key of this configuration -> names that other projects use for the same setting."""

NOTES = {
    **dict.fromkeys(
        ("train_iters", "max_steps", "training_steps", "num_train_steps", "steps", "total_steps"), _BATCHES
    ),
    **dict.fromkeys(("train_steps", "iterations", "max_iters"), _BATCHES),
    **dict.fromkeys(("warmup", "lr_warmup_iters", "warmup_steps", "warmup_iters", "num_warmup_steps"), _WARMUP),
    **dict.fromkeys(("lr_decay_iters", "decay_steps", "lr_wsd_decay_iters"), _BATCHES),
    "warmup_num_steps": _WARMUP,
    **dict.fromkeys(
        ("lr_warmup_fraction", "warmup_ratio"),
        "the suggested key takes a number of samples: the fraction x training.train_samples",
    ),
    **dict.fromkeys(("bf16", "fp16", "fp32"), _PRECISION),
    "eval_iters": _BATCHES,
    "betas": "the suggested key takes the first beta; training.optimizer.beta2 takes the second one",
    "alibi": "the suggested key takes 'alibi', 'learned' or 'rotary'",
    "swiglu": "the suggested key takes 'swiglu' or 'gelu'",
    "untie_embeddings_and_output_weights": "the suggested key has the opposite meaning: true ties the embeddings",
    "initial_loss_scale": "the suggested key takes the exponent of 2, such as 16 for a loss scale of 65536",
}
"""Name that another project uses -> how the value differs in this configuration."""


def key_known_as(name: str) -> tuple[str, str] | None:
    """Return the key that other projects call `name`, and a note on how the value of the key differs.

    The note is empty if the value has the same meaning in both projects. Dashes count as underscores, and capitals as
    lower-case letters. Return None if no project is known to use the name.
    """
    plain = name.lower().replace("-", "_").strip("_")
    for key, names in KNOWN_AS.items():
        if plain in names:
            return key, NOTES.get(plain, "")
    return None
