// What an operator can set. docs/configuration.md is written from this table; config.ts reads it.

interface Setting {
  name: string
  /** As shown in docs/configuration.md. */
  default: string
  meaning: string
}

/** Every setting with its default and one sentence. */
export const settings = [
  { name: 'PLATFORM_HOST', default: '127.0.0.1', meaning: 'Address to listen on.' },
  { name: 'PLATFORM_PORT', default: '39001', meaning: 'Port to listen on; 0 takes a free one.' },
  {
    name: 'PLATFORM_BASE_URL',
    default: 'http://<host>:<port>',
    meaning: 'The URL clients reach the platform by, when a proxy stands in front of it.',
  },
  {
    name: 'PLATFORM_DATA_DIR',
    default: '.plinth/data',
    meaning:
      'Where the embedded database, the generated secrets and the files of projects live, relative to the working directory. Run as root below a directory the database user cannot enter, the database itself is kept in /var/lib/plinth.',
  },
  {
    name: 'PLATFORM_ADMIN_TOKEN',
    default: 'generated with the embedded database, else unset',
    meaning: 'Root token of the management API, at least 32 characters; unset disables it.',
  },
  {
    name: 'CONTROL_PLANE_SECRET',
    default: 'generated with the embedded database, else required',
    meaning:
      'Keys every stored secret, platform token and session, at least 32 characters. It must never change: what it sealed cannot be opened with another.',
  },
  {
    name: 'DATABASE_URL',
    default: 'unset: the embedded Postgres',
    meaning:
      'A Postgres server (15 or newer) to use instead, as a superuser: postgres://user:password@host:port/database?sslmode=verify-full. The database named is the control database (`plinth` when none or `postgres` is named) and is created if absent.',
  },
  {
    name: 'PLATFORM_EXTENSION_DIR',
    default: 'none',
    meaning:
      'Further extensions for the embedded Postgres, such as pgvector: control and SQL files in its subdirectory `extension`, libraries in `lib`. Projects can create those whose control file says `trusted = true`.',
  },
  {
    name: 'PLATFORM_TRUSTED_PROXIES',
    default: 'none',
    meaning:
      'Comma-separated addresses or CIDRs of proxies whose X-Forwarded-For and X-Request-Id are believed.',
  },
  {
    name: 'PLATFORM_OUTBOUND_ALLOW',
    default: 'none',
    meaning:
      'Comma-separated addresses or CIDRs that are not public and that the platform may connect to all the same when a project names them: sign-in providers and the SMTP servers of projects, for example on an intranet. The server of SMTP_HOST needs no entry.',
  },
  {
    name: 'PLATFORM_RATE_LIMIT_ANON',
    default: '100',
    meaning: 'Requests per project and 60 seconds with the anon key; 0 lifts the limit.',
  },
  {
    name: 'PLATFORM_RATE_LIMIT_AUTHENTICATED',
    default: '1000',
    meaning: 'Requests per project and 60 seconds of signed-in users; 0 lifts the limit.',
  },
  {
    name: 'PLATFORM_RATE_LIMIT_SERVICE_ROLE',
    default: '5000',
    meaning: 'Requests per project and 60 seconds with the service_role key; 0 lifts the limit.',
  },
  {
    name: 'PLATFORM_STATEMENT_TIMEOUT_MS',
    default: '8000',
    meaning: 'How long a statement of a data-plane caller may run.',
  },
  { name: 'PLATFORM_STATEMENT_TIMEOUT_ANON_MS', default: '3000', meaning: 'The same for anonymous callers.' },
  {
    name: 'PLATFORM_REST_MAX_ROWS',
    default: '1000',
    meaning: 'Rows a read returns at most, whatever its limit; 0 lifts the cap.',
  },
  {
    name: 'PLATFORM_POOL_SIZE',
    default: '10',
    meaning:
      'Statements of one project and login that may run at once, each on a connection of its own; quick ones share two further connections.',
  },
  {
    name: 'PLATFORM_MAX_DB_CONNECTIONS',
    default: '200',
    meaning: 'Data-plane database connections of all projects together.',
  },
  {
    name: 'PLATFORM_REALTIME_MAX_LISTENERS',
    default: '200',
    meaning:
      'Projects whose row changes are read at the same time, each on a connection of its own; further ones wait until there is room.',
  },
  {
    name: 'PLATFORM_REALTIME_MAX_DB_CONNECTIONS',
    default: '20',
    meaning: 'Connections on which policies are asked about changed rows, of all projects together.',
  },
  {
    name: 'PLATFORM_REALTIME_QUERY_POOL_SIZE',
    default: '4',
    meaning:
      'The same for one project. When all are busy for two seconds, changes are not delivered, and subscribers are told.',
  },
  {
    name: 'PLATFORM_AUDIT_RETENTION_DAYS',
    default: '90',
    meaning: 'Age in days past which `audit prune` deletes entries.',
  },
  {
    name: 'PLATFORM_DISK_RESERVE_MB',
    default: '1024',
    meaning:
      'Free disk space, in megabytes, below which writes of all projects are refused with 503; 0 switches it off. Measured where the embedded database and the files of projects are; with DATABASE_URL only the files, with S3_BUCKET only the embedded database.',
  },
  {
    name: 'REDIS_URL',
    default: 'unset: caches are kept in this process',
    meaning:
      'A Redis (7 or newer) or Valkey server for the caches of projects, and for broadcast and presence over several nodes, as a user who may manage ACL users and use channels: redis://user:password@host:port, or rediss:// for TLS. Needed once more than one process runs the platform.',
  },
  {
    name: 'PLATFORM_CRON_TIMEOUT_MS',
    default: '600000',
    meaning: 'How long a run of a scheduled job may take; then its database session is ended.',
  },
  {
    name: 'SMTP_HOST',
    default: 'none',
    meaning:
      'The SMTP server for the mail of projects that have none of their own. Without any, mail is kept in the local catch-all.',
  },
  {
    name: 'SMTP_PORT',
    default: '587, with tls 465, with none 1025',
    meaning: 'Its port.',
  },
  { name: 'SMTP_USERNAME', default: 'none', meaning: 'The login; without one, mail is sent without.' },
  { name: 'SMTP_PASSWORD', default: 'none', meaning: 'The password of the login.' },
  {
    name: 'SMTP_FROM_EMAIL',
    default: 'SMTP_USERNAME if it is an address, else no-reply@SMTP_HOST',
    meaning: 'The sender’s address.',
  },
  { name: 'SMTP_FROM_NAME', default: 'none', meaning: 'The sender’s name.' },
  {
    name: 'SMTP_ENCRYPTION',
    default: 'none on this machine, tls on port 465, else starttls',
    meaning: 'none, starttls or tls. Certificates are verified.',
  },
  {
    name: 'S3_BUCKET',
    default: 'unset: files are kept in the data directory',
    meaning:
      'A bucket of an S3 service for the files of projects, which are encrypted before they get there. Needed once more than one process runs the platform; files kept elsewhere before are not moved.',
  },
  {
    name: 'S3_ENDPOINT',
    default: 'that of AWS for S3_REGION',
    meaning: 'The http or https URL of the service.',
  },
  { name: 'S3_ACCESS_KEY_ID', default: 'required with S3_BUCKET', meaning: 'The access key.' },
  {
    name: 'S3_SECRET_ACCESS_KEY',
    default: 'required with S3_BUCKET',
    meaning: 'Its secret; it must be allowed to list, get, put and delete objects.',
  },
  { name: 'S3_REGION', default: 'us-east-1', meaning: 'The region requests are signed for.' },
  {
    name: 'S3_FORCE_PATH_STYLE',
    default: 'true with S3_ENDPOINT, else false',
    meaning: 'Whether the bucket is named in the path of URLs, true, or in their host, false.',
  },
  { name: 'PLATFORM_LOG_LEVEL', default: 'info', meaning: 'fatal, error, warn, info, debug or silent.' },
  {
    name: 'PLATFORM_SHUTDOWN_GRACE_MS',
    default: '10000',
    meaning: 'How long requests in flight may take to finish once the platform is told to stop.',
  },
] as const satisfies readonly Setting[]

export type Name = (typeof settings)[number]['name']
