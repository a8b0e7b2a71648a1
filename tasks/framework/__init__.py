"""What every task stands on: pending work, jobs, remote calls and leases."""
