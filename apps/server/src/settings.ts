// The settings of an operator. `npm run docs` writes docs/configuration.md from this table; config.ts reads it.

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
    meaning: 'The public URL of the platform, if a proxy is in front of it.',
  },
  {
    name: 'PLATFORM_DATA_DIR',
    default: '.plinth/data',
    meaning:
      'Directory of the embedded database, the generated secrets and the files of projects, relative to the working directory. If the platform runs as root and the database user cannot enter this directory, the database is in /var/lib/plinth.',
  },
  {
    name: 'PLATFORM_ADMIN_TOKEN',
    default: 'generated with the embedded database, else unset',
    meaning: 'Root token of the management API, at least 32 characters. Unset: there is no root token.',
  },
  {
    name: 'CONTROL_PLANE_SECRET',
    default: 'generated with the embedded database, else required',
    meaning:
      'The key for stored secrets, platform tokens and sessions, at least 32 characters. It must never change: what it encrypted cannot be decrypted with another one.',
  },
  {
    name: 'PLATFORM_METRICS_TOKEN',
    default: 'unset: only this machine',
    meaning:
      'Token for GET /metrics, at least 32 characters. Unset: only requests from this machine that no proxy has forwarded are answered.',
  },
  {
    name: 'DATABASE_URL',
    default: 'unset: the embedded Postgres',
    meaning:
      'A Postgres server (15 or newer) to use instead, as a superuser: postgres://user:password@host:port/database?sslmode=verify-full. The database in the URL is the control database and is created if absent. The default is `plinth`, also for a URL that names `postgres`.',
  },
  {
    name: 'PLATFORM_EXTENSION_DIR',
    default: 'none',
    meaning:
      'Directory of additional extensions for the embedded Postgres, such as pgvector: control and SQL files in `extension`, libraries in `lib`. Projects can create extensions whose control file has `trusted = true`, in schemas in which they can create tables: `extensions`, `public` and their own.',
  },
  {
    name: 'PLATFORM_TRUSTED_PROXIES',
    default: 'none',
    meaning:
      'Comma-separated addresses or CIDRs of proxies whose X-Forwarded-For and X-Request-Id are trusted.',
  },
  {
    name: 'PLATFORM_OUTBOUND_ALLOW',
    default: 'none',
    meaning:
      'Comma-separated private addresses or CIDRs that the platform may connect to when a project names them: sign-in providers, SMTP servers and webhooks of projects, for example on an intranet. Edge functions may reach the IPv4 addresses of the list. SMTP_HOST needs no entry.',
  },
  {
    name: 'PLATFORM_RATE_LIMIT_ANON',
    default: '100',
    meaning: 'Requests per project and 60 seconds with the anon key; 0 disables the limit.',
  },
  {
    name: 'PLATFORM_RATE_LIMIT_AUTHENTICATED',
    default: '1000',
    meaning: 'Requests per project and 60 seconds of signed-in users; 0 disables the limit.',
  },
  {
    name: 'PLATFORM_RATE_LIMIT_SERVICE_ROLE',
    default: '5000',
    meaning: 'Requests per project and 60 seconds with the service_role key; 0 disables the limit.',
  },
  {
    name: 'PLATFORM_STATEMENT_TIMEOUT_MS',
    default: '8000',
    meaning: 'Timeout of a statement of a data-plane caller.',
  },
  { name: 'PLATFORM_STATEMENT_TIMEOUT_ANON_MS', default: '3000', meaning: 'The same for anonymous callers.' },
  {
    name: 'PLATFORM_REST_MAX_ROWS',
    default: '1000',
    meaning: 'Maximum number of rows of one read, whatever its limit; 0 disables the limit.',
  },
  {
    name: 'PLATFORM_GRAPHQL_MAX_DOCUMENT_BYTES',
    default: '50000',
    meaning: 'GraphQL: maximum length of a document. It may have a token for every ten bytes of this.',
  },
  {
    name: 'PLATFORM_GRAPHQL_MAX_DEPTH',
    default: '30',
    meaning:
      'GraphQL: maximum levels of fields inside each other. The standard introspection query needs 15.',
  },
  {
    name: 'PLATFORM_GRAPHQL_MAX_FIELDS',
    default: '1000',
    meaning: 'GraphQL: maximum fields of an operation after its fragments are expanded.',
  },
  {
    name: 'PLATFORM_GRAPHQL_MAX_ALIASES',
    default: '100',
    meaning: 'GraphQL: maximum aliases of an operation after its fragments are expanded.',
  },
  {
    name: 'PLATFORM_GRAPHQL_MAX_COMPLEXITY',
    default: '1000000',
    meaning:
      'GraphQL: maximum rows that an answer can have: the page sizes of nested collections multiplied, and added up.',
  },
  {
    name: 'PLATFORM_POOL_SIZE',
    default: '10',
    meaning:
      'Concurrent statements of one project and login, each on its own connection. Fast statements share two more connections.',
  },
  {
    name: 'PLATFORM_MAX_DB_CONNECTIONS',
    default: '200',
    meaning: 'Data-plane database connections of all projects.',
  },
  {
    name: 'PLATFORM_REALTIME_MAX_LISTENERS',
    default: '200',
    meaning: 'Projects whose row changes are read at once, each on its own connection. Other projects wait.',
  },
  {
    name: 'PLATFORM_REALTIME_MAX_DB_CONNECTIONS',
    default: '20',
    meaning: 'Connections for policy checks of changed rows, of all projects.',
  },
  {
    name: 'PLATFORM_REALTIME_QUERY_POOL_SIZE',
    default: '4',
    meaning:
      'The same for one project. If all are busy for two seconds, changes are not delivered, and subscribers get a system message.',
  },
  {
    name: 'PLATFORM_AUDIT_RETENTION_DAYS',
    default: '90',
    meaning: '`audit prune` deletes entries that are older than this number of days.',
  },
  {
    name: 'PLATFORM_LOG_RETENTION_DAYS',
    default: '7',
    meaning:
      'Log entries of projects, which are requests and lines of edge functions, are deleted after this number of days.',
  },
  {
    name: 'PLATFORM_EDGE_ISOLATION',
    default: 'per-project',
    meaning:
      '`per-project`: each project has a worker for its edge functions, which stays warm. `per-invocation`: each call has a new worker, which ends with it. Any other value warns and is taken as `per-project`.',
  },
  {
    name: 'PLATFORM_NPM_REGISTRY',
    default: 'the default of Deno',
    meaning: 'The npm registry for packages of edge functions, which are loaded when a function is deployed.',
  },
  {
    name: 'RUNTIME_PORT',
    default: '8082',
    meaning:
      'Internal port of the runtime of edge functions, with GET /health, on 127.0.0.1; 0 takes a free one.',
  },
  {
    name: 'RUNTIME_SUPERVISOR',
    default: 'on',
    meaning:
      '`off` runs the edge functions of all projects in one process, without isolation from each other. It is only for going back from a problem with the workers.',
  },
  {
    name: 'RUNTIME_MAX_WORKERS',
    default: '16',
    meaning:
      'Workers of edge functions that run at once. The least recently used one is stopped for another project.',
  },
  {
    name: 'RUNTIME_WORKER_IDLE_MS',
    default: '300000',
    meaning: 'A worker without calls is stopped after this time.',
  },
  {
    name: 'RUNTIME_REQUEST_TIMEOUT_MS',
    default: '30000',
    meaning: 'How long a function may take until its answer starts, and then between two parts of it.',
  },
  {
    name: 'RUNTIME_WORKER_BACKOFF_START_MS',
    default: '1000',
    meaning: 'Pause before a worker that has crashed is started again. Each further crash doubles it.',
  },
  {
    name: 'RUNTIME_WORKER_BACKOFF_CAP_MS',
    default: '30000',
    meaning: 'The longest pause before a worker that has crashed is started again.',
  },
  {
    name: 'RUNTIME_WORKER_HEALTHY_RESET_MS',
    default: '60000',
    meaning: 'After a worker has run for this time, the pause after a crash is the first one again.',
  },
  {
    name: 'RUNTIME_WORKER_START_TIMEOUT_MS',
    default: '10000',
    meaning: 'How long a worker may take to start.',
  },
  {
    name: 'WEBHOOK_MAX_RETRIES',
    default: '5',
    meaning: 'Attempts of a webhook delivery before it becomes a dead letter.',
  },
  {
    name: 'WEBHOOK_TIMEOUT',
    default: '30s',
    meaning: 'Timeout of an attempt, up to an hour: 30 or 30s for seconds, or a number with ms or m.',
  },
  {
    name: 'WEBHOOK_RETRY_BASE_DELAY',
    default: '10s',
    meaning: 'Pause after the first failed attempt, in the same form. Each further failure doubles it.',
  },
  {
    name: 'WEBHOOK_MAX_CONCURRENT',
    default: '10',
    meaning: 'Attempts that a node makes at once.',
  },
  {
    name: 'WEBHOOK_MAX_STORED_MB',
    default: '256',
    meaning:
      'Megabytes of deliveries that wait for the webhooks of a project, and of its dead letters. Further changes wait in the project database. Of dead letters the oldest are deleted.',
  },
  {
    name: 'PLATFORM_DLQ_RETENTION_DAYS',
    default: '30',
    meaning: 'Dead letters of webhooks are deleted after this number of days.',
  },
  {
    name: 'PLATFORM_DISK_RESERVE_MB',
    default: '1024',
    meaning:
      'Free disk space, in megabytes, below which writes of all projects are rejected with 503; 0 disables it. It is measured for the embedded database and for the files of projects: with DATABASE_URL only for the files, with S3_BUCKET only for the embedded database.',
  },
  {
    name: 'REDIS_URL',
    default: 'unset: caches are in memory',
    meaning:
      'A Redis (7 or newer) or Valkey server for the caches of projects, and for broadcast and presence between nodes, with a user who may manage ACL users and use channels: redis://user:password@host:port, or rediss:// for TLS. Required for more than one node.',
  },
  {
    name: 'PLATFORM_POOLER_URL',
    default: 'unset: no pooler',
    meaning:
      'Where applications reach PgBouncer: postgres://host:port, with the port 6432 unless another is given, and sslmode=require, verify-ca or verify-full for TLS. With user:password@ of an admin user of PgBouncer, the platform sends RELOAD when the user list has changed.',
  },
  {
    name: 'PLATFORM_POOLER_USERLIST',
    default: 'none',
    meaning:
      'Path of the auth_file of PgBouncer. The platform writes the owners of all projects into it, and keeps other users that are in it.',
  },
  {
    name: 'PLATFORM_REPLICA_URL',
    default: 'unset: no replica',
    meaning:
      'Where applications reach a read replica of the Postgres server, or a pooler in front of one: postgres://host:port, with sslmode for TLS.',
  },
  {
    name: 'PLATFORM_CRON_TIMEOUT_MS',
    default: '600000',
    meaning: 'Timeout of a run of a scheduled job. Its database session is then ended.',
  },
  {
    name: 'SMTP_HOST',
    default: 'none',
    meaning:
      'The SMTP server for projects that have no own one. Without any SMTP server, mail is captured locally.',
  },
  {
    name: 'SMTP_PORT',
    default: '587, with tls 465, with none 1025',
    meaning: 'Its port.',
  },
  { name: 'SMTP_USERNAME', default: 'none', meaning: 'The user name. Unset: no authentication.' },
  { name: 'SMTP_PASSWORD', default: 'none', meaning: 'The password.' },
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
    default: 'unset: files are in the data directory',
    meaning:
      'An S3 bucket for the files of projects, which the platform encrypts first. Several nodes need it, or a shared data directory. Existing files are not moved.',
  },
  {
    name: 'S3_ENDPOINT',
    default: 'AWS in S3_REGION',
    meaning: 'The http or https URL of the service.',
  },
  { name: 'S3_ACCESS_KEY_ID', default: 'required with S3_BUCKET', meaning: 'The access key.' },
  {
    name: 'S3_SECRET_ACCESS_KEY',
    default: 'required with S3_BUCKET',
    meaning: 'The secret of the access key, which must be allowed to list, get, put and delete objects.',
  },
  { name: 'S3_REGION', default: 'us-east-1', meaning: 'The region for signing requests.' },
  {
    name: 'S3_FORCE_PATH_STYLE',
    default: 'true with S3_ENDPOINT, else false',
    meaning: 'true: the bucket is in the path of URLs; false: in the host.',
  },
  {
    name: 'PLATFORM_BACKUP_DIR',
    default: 'backups in the data directory',
    meaning: 'The directory for backups, which should be on another disk. Several nodes must share it.',
  },
  {
    name: 'BACKUP_S3_BUCKET',
    default: 'unset: backups are in PLATFORM_BACKUP_DIR',
    meaning: 'An S3 bucket for backups. The platform encrypts them first.',
  },
  {
    name: 'BACKUP_S3_ENDPOINT',
    default: 'AWS in BACKUP_S3_REGION',
    meaning: 'The http or https URL of the service.',
  },
  {
    name: 'BACKUP_S3_ACCESS_KEY_ID',
    default: 'required with BACKUP_S3_BUCKET',
    meaning: 'The access key.',
  },
  {
    name: 'BACKUP_S3_SECRET_ACCESS_KEY',
    default: 'required with BACKUP_S3_BUCKET',
    meaning: 'The secret of the access key, which must be allowed to list, get, put and delete objects.',
  },
  { name: 'BACKUP_S3_REGION', default: 'us-east-1', meaning: 'The region for signing requests.' },
  {
    name: 'BACKUP_S3_FORCE_PATH_STYLE',
    default: 'true with BACKUP_S3_ENDPOINT, else false',
    meaning: 'true: the bucket is in the path of URLs; false: in the host.',
  },
  {
    name: 'PLATFORM_UPGRADE',
    default: 'auto, with DATABASE_URL manual',
    meaning:
      '`auto`: a new release upgrades the databases when it starts, after backups. `manual`: it serves only health and the upgrade until `plinth upgrade --yes`.',
  },
  {
    name: 'PLATFORM_PITR',
    default: 'off',
    meaning:
      '`on`: every change of the embedded database is archived with the backups, so that projects can be recovered to a time. See [recovery.md](recovery.md).',
  },
  {
    name: 'PLATFORM_PITR_DAYS',
    default: '7',
    meaning: 'How many days back a project can be recovered.',
  },
  { name: 'PLATFORM_LOG_LEVEL', default: 'info', meaning: 'fatal, error, warn, info, debug or silent.' },
  {
    name: 'PLATFORM_SHUTDOWN_GRACE_MS',
    default: '10000',
    meaning: 'How long requests in flight may take to finish when the platform stops.',
  },
] as const satisfies readonly Setting[]

export type Name = (typeof settings)[number]['name']
