"""HTTP and HTTPS of every process: serving, connections, passwords, certificates, headers, and pages of its own."""
