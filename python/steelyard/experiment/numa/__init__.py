"""NUMA experiments: where the threads and the memory of a job should be, measured in six scenarios.

In: the layout of a machine (``scenarios``), a command or a benchmark with co-runners (``workload``), or
figures measured elsewhere (``figures``). Out: an experiment whose arms are scenarios (``design``), proof
that threads and pages were where they should be (``read_back``), and from its trials what matters more,
locality or cache sharing, with the placement that follows (``verdict``); beside a fleet's finding of the
same job, whether both agree (``production``).

Source: Tang et al., "Optimizing Google's Warehouse Scale Computers: The NUMA Experience" (HPCA 2013),
section 3 and Figures 9 to 12.

Not here: trials and their order (``experiment.engine``), intervals (``stats.contrasts``), drawing.
"""
