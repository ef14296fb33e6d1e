"""Many elements to fewer: sums and their kin, norms, order statistics, scans."""
