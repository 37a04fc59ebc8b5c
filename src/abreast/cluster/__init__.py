"""Ray nodes on this machine, for trying out a cluster: `abreast cluster`."""
