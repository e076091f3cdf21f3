"""Off-policy training in parallel: actors, a host, a replay manager and a learner, all at once.

After PEARL (Meng et al. 2023, figure 4). *Actors* are local processes or MPI ranks; the rest is
one process. Queues join them: actors -> host (DCQ, `transport`), host <-> replay manager (RRQ),
host -> learner (LAQ), learner -> host (LDQ). All messages carry sequence numbers.

The unit of work is one *collection* of `flowrl.schedule`: every actor makes its part of each in
order, so counts and the ratio of updates are exact. Collection k may begin when the updates that
are due after collection k - lag - 1 have been made: this one rule governs the ratio and keeps
every buffer from being overwritten before it was read, without a lock anywhere.
"""
