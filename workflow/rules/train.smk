# Training is a chain of segments. The checkpoints' folder is no declared output: Snakemake deletes those before a job
# starts and after it failed. A segment's file says why it ended; the chain goes on until one says `finished`.


checkpoint train_segment:
    input:
        config="<run>/config/train.json",
        index="<run>/index/index.json",
        verified="<run>/index/verified.json",
        tokenizer="<run>/tokenizer/tokenizer.json",
        previous=previous_segment,
    output:
        "<run>/train/segments/{n}.json",
    log:
        "<logs>/train_segment/{n}.log",
    benchmark:
        "<benchmarks>/train_segment/{n}.tsv"
    # Never by Snakemake: the chain has its own budget of crashes, and a stop by a person is no fault.
    retries: 0
    conda:
        "../envs/bloomery.yaml"
    threads: CONFIG.training.parallel.world_size
    resources:
        **PLAN.training_job.resources() | {"slurm_extra": training_extra},
    params:
        run=run_folder(),
        launch=launch_options,
    message:
        "train segment {wildcards.n}"
    # A scheduler that ends the job tells every process of it; shell and tee wait for the launcher, which saves first.
    # `command`: where programs run in a container, this one stays outside of it, beside srun.
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
        "close the chain of segments"
    shell:
        "bloomery train finish --run {params.run:q} --output {output:q} 2>&1 | tee {log:q} >&2"


rule train:
    input:
        rules.index.input,
        segments_to_the_end,
        rules.finish_training.output,
        rules.report_training.output,
    message:
        "train: everything is there"
