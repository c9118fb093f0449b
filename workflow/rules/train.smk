# Training is a chain of segments. The folder of checkpoints is not a declared output, because Snakemake deletes
# declared outputs before a job starts and after it fails. Each segment's file records why the segment ended. The chain
# continues until a segment ends with the status `finished`.


checkpoint train_segment:
    input:
        config="<run>/config/train.json",
        index="<run>/results/index.json",
        verified="<run>/index/verified.json",
        tokenizer="<run>/results/tokenizer.json",
        previous=previous_segment,
    output:
        "<run>/train/segments/{n}.json",
    log:
        "<logs>/train_segment/{n}.log",
    # Snakemake must not retry a segment: the chain has its own limit of crashes, and a stop by a user is not a
    # failure.
    retries: 0
    conda:
        "../envs/bloomery.yaml"
    threads: CONFIG.training.parallel.world_size
    resources:
        **PLAN.training_job.resources() | {"slurm_extra": training_extra},
    params:
        run=run_folder(),
        launch=cluster_options,
    message:
        "train segment {wildcards.n}"
    # A scheduler that ends the job sends TERM to all its processes. The shell ignores TERM and waits for the launcher,
    # which first saves. The launcher writes the log itself, so that it can draw its progress bar on the terminal.
    # `command` bypasses the container's `bloomery` function, because the launcher needs the host's srun.
    shell:
        "trap '' TERM; command bloomery train segment --config {input.config:q} --run {params.run:q} --number {wildcards.n:q}"
        " --output {output:q} {params.launch:q} --log {log:q}"


rule finish_training:
    input:
        segments_to_the_end,
    output:
        "<run>/train/finished.json",
    log:
        "<logs>/finish_training.log",
    localrule: True
    conda:
        "../envs/bloomery.yaml"
    params:
        run=run_folder(),
    message:
        "record the end of the training"
    shell:
        "bloomery train finish --run {params.run:q} --output {output:q} > {log:q} 2>&1"


rule train:
    input:
        rules.index.input,
        segments_to_the_end,
        rules.finish_training.output,
        rules.report_training.output,
        TRAINING_PAGE,
    message:
        "train: every output exists"
