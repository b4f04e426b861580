"""The application: Flask for pages and endpoints, Socket.IO for sessions, a guard in front of both."""
