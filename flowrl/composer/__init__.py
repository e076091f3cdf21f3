"""The PEARL composer: measure or model each primitive, place it, generate the program.

Meng, Kinsner, Singh, Iyer, Prasanna, "A Software-Hardware Co-Optimized Toolkit for Deep
Reinforcement Learning on Heterogeneous Platforms" (CF 2024, arXiv 2311.09445).
"""
