"""Statistics of scaling curves: the Universal Scalability Law (``law``), the models that know the machine
(``models``), which of them holds (``choice``), where throughput is highest (``peak``), and what it is at
other numbers of CPUs (``prediction``).
"""
