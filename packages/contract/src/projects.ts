import type { Static } from 'typebox'
import type { Routes } from './route.ts'
import { Empty, Id, Nullable, page, pageQuery, Timestamp } from './shapes.ts'
import { Type } from './type.ts'

export const ProjectName = Type.String({
  minLength: 1,
  maxLength: 100,
  pattern: '\\S',
  description: 'a text that is not blank',
})
const Description = Type.String({ maxLength: 2000 })
export const ProjectSlug = Type.String({
  pattern: '^[a-z0-9](?:[a-z0-9-]{1,48})[a-z0-9]$',
  description: '3 to 50 characters of lowercase letters, digits and inner hyphens',
})

const quota = (meaning: string) =>
  Type.Optional(
    Nullable(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: meaning })),
  )

/** Limits that an operator sets per project. For an absent or null key the platform's default applies. */
export const Quotas = Type.Object(
  {
    max_storage_size_mb: quota('Total size of the project’s files, in megabytes (default 1024).'),
    max_database_size_mb: quota(
      'Size of the project database, in megabytes (default unlimited). Above it, writes get 413; 0 rejects all writes.',
    ),
    rate_limit_anon: quota('Requests per 60 seconds with the anon key; 0 means unlimited.'),
    rate_limit_authenticated: quota('Requests per 60 seconds of signed-in users; 0 means unlimited.'),
    rate_limit_service_role: quota('Requests per 60 seconds with the service_role key; 0 means unlimited.'),
    max_cache_bytes: quota(
      'Bytes of cached keys and values, plus 200 for each key, if the cache is in the memory of the platform (default 67108864).',
    ),
    function_invocations_per_minute: quota('Calls of edge functions per minute (default 6000).'),
    function_concurrency: quota('Calls of edge functions that run at the same time (default 20).'),
    function_memory_mb: quota('Memory of the worker of edge functions, in megabytes (default 256).'),
    function_response_mb: quota('Size of the answer of an edge function, in megabytes (default 20).'),
    max_functions: quota('Edge functions (default 200).'),
    max_webhooks: quota('Webhooks (default 50).'),
    max_backup_size_mb: quota(
      'Total size of the project’s backups in their store, in megabytes (default unlimited).',
    ),
    max_branches: quota('Branches (default 10).'),
    realtime_max_clients: quota('Open realtime sockets (default 10000).'),
    realtime_max_events_per_second: quota('Realtime messages per second (default 10000).'),
  },
  { additionalProperties: false },
)
export type Quotas = Static<typeof Quotas>

const Settings = Type.Record(Type.String(), Type.Unknown())

export const ProjectStatus = Type.Union([Type.Literal('active'), Type.Literal('suspended')])

const project = {
  id: Id,
  name: ProjectName,
  slug: Type.String(),
  description: Type.String(),
  status: ProjectStatus,
  settings: Settings,
  quotas: Type.Record(Type.String(), Type.Unknown()),
  anon_key: Type.String(),
  api_url: Type.String({ description: 'The URL to give to a client library.' }),
  created_at: Timestamp,
  updated_at: Timestamp,
}
export const Project = Type.Object(project)
export type Project = Static<typeof Project>

export const ProjectDetails = Type.Object({
  ...project,
  storage_bytes: Type.Integer({ description: 'Size of its files in bytes, including unfinished uploads.' }),
  database_bytes: Nullable(
    Type.Integer({
      description: 'Size of its database in bytes; null if measuring takes longer than two seconds.',
    }),
  ),
})
export type ProjectDetails = Static<typeof ProjectDetails>

/** Tables of an exposed schema whose rows every role with a grant can read. */
export const ExposureWarning = Type.Object({
  code: Type.Union([Type.Literal('tables_without_rls'), Type.Literal('rls_not_checked')]),
  message: Type.String(),
  schema: Nullable(Type.String()),
  tables: Type.Array(Type.String(), { description: 'The first 50 of them by name.' }),
  total: Type.Integer({ description: 'How many there are.' }),
})
export type ExposureWarning = Static<typeof ExposureWarning>

export const UpdatedProject = Type.Object({
  ...project,
  warnings: Type.Optional(
    Type.Array(ExposureWarning, {
      description: 'Present if the request sets exposed_schemas: their tables without row-level security.',
    }),
  ),
})
export type UpdatedProject = Static<typeof UpdatedProject>

/** The only answer that contains the secrets of a project. */
export const CreatedProject = Type.Object({
  ...project,
  service_role_key: Type.String(),
  jwt_secret: Type.String(),
})
export type CreatedProject = Static<typeof CreatedProject>

const ById = Type.Object({ id: Id })

export const projectsApi = {
  create: {
    plane: 'management',
    needsSpace: 'disk',
    method: 'POST',
    path: '/projects',
    scope: 'admin',
    audit: 'project.created',
    summary: 'Create a project with its own database, keys and JWT secret',
    body: Type.Object(
      {
        name: ProjectName,
        slug: Type.Optional(ProjectSlug),
        description: Type.Optional(Description),
        settings: Type.Optional(Settings),
        quotas: Type.Optional(Quotas),
      },
      { additionalProperties: false },
    ),
    reply: CreatedProject,
    status: 201,
  },
  list: {
    plane: 'management',
    method: 'GET',
    path: '/projects',
    scope: 'read',
    showsOwn: true,
    summary: 'List projects, newest first',
    query: Type.Object({ ...pageQuery, status: Type.Optional(ProjectStatus) }),
    reply: page('projects', Project),
  },
  read: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}',
    scope: 'read',
    summary: 'Read one project',
    params: ById,
    reply: ProjectDetails,
  },
  update: {
    plane: 'management',
    method: 'PATCH',
    path: '/projects/{id}',
    scope: 'admin',
    audit: 'project.updated',
    summary:
      'Change name, description, settings or quotas; settings and quotas merge by key, null removes one',
    params: ById,
    body: Type.Object(
      {
        name: Type.Optional(ProjectName),
        description: Type.Optional(Description),
        settings: Type.Optional(Settings),
        quotas: Type.Optional(Quotas),
      },
      { additionalProperties: false, minProperties: 1 },
    ),
    reply: UpdatedProject,
  },
  remove: {
    plane: 'management',
    method: 'DELETE',
    path: '/projects/{id}',
    scope: 'admin',
    audit: 'project.deleted',
    summary: 'Delete a project with its database, roles and files',
    params: ById,
    reply: Empty,
    status: 204,
  },
  suspend: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/suspend',
    scope: 'admin',
    audit: 'project.suspended',
    summary: 'Suspend a project: reject all its data-plane requests with 403',
    params: ById,
    reply: Project,
  },
  resume: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/resume',
    scope: 'admin',
    audit: 'project.resumed',
    summary: 'Resume a suspended project',
    params: ById,
    reply: Project,
  },
  revealServiceRoleKey: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/keys/service-role',
    scope: 'admin',
    audit: 'project.service_role_key_revealed',
    summary: 'Reveal the service_role key',
    params: ById,
    reply: Type.Object({ service_role_key: Type.String() }),
  },
  rotateJwtSecret: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/rotate/jwt',
    scope: 'admin',
    audit: 'project.jwt_secret_rotated',
    summary: 'Replace the JWT secret; every JWT of the project stops working',
    params: ById,
    reply: Type.Object({ jwt_secret: Type.String() }),
  },
  rotateApiKeys: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/rotate/api-keys',
    scope: 'admin',
    audit: 'project.api_keys_rotated',
    summary: 'Replace the anon and service_role keys',
    params: ById,
    reply: Type.Object({ anon_key: Type.String(), service_role_key: Type.String() }),
  },
} as const satisfies Routes
