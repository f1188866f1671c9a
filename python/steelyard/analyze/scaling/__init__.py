"""How a workload uses more CPUs: its curve (``curve``, ``measured``), where throughput is lost (``loss``),
what it cannot use (``limits``), and all of it together (``scaling``). Pure functions.
"""
