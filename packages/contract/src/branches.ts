// Branches: isolated copies of a project, each a project of its own.
import type { Static } from 'typebox'
import { BackupProgress } from './backups.ts'
import type { Routes } from './route.ts'
import { Empty, Id, Nullable, PageQuery, page, Timestamp } from './shapes.ts'
import { Type } from './type.ts'

export const branchStatuses = ['creating', 'active', 'failed'] as const
export const branchMethods = ['clone', 'file_copy', 'wal_log', 'logical'] as const
export type BranchMethod = (typeof branchMethods)[number]
export const defaultMaxBranches = 10

const branch = {
  id: { ...Id, description: 'The id of the branch, which is a project.' },
  name: Type.String(),
  slug: Type.String({ description: 'Made from the name: 3 to 50 lowercase letters, digits and hyphens.' }),
  parent_id: Id,
  status: Type.Enum(branchStatuses),
  schema_only: Type.Boolean({ description: 'It was created without rows and files.' }),
  method: Nullable(
    Type.Enum(branchMethods, {
      description:
        'How the database was copied: clone shares blocks on disk, file_copy and wal_log copy it as a whole, logical copies objects and rows.',
    }),
  ),
  error: Nullable(Type.String({ description: 'Why the creation or the last reset has failed.' })),
  progress: Nullable({ ...BackupProgress, description: 'What is being done; null if nothing is.' }),
  size_bytes: Nullable(Type.Integer({ minimum: 0, description: 'Size of its database.' })),
  api_url: Type.String({ description: 'The URL to give to a client library.' }),
  created_at: Timestamp,
  copied_at: Nullable({ ...Timestamp, description: 'When it got the state of its parent.' }),
  expires_at: Nullable({ ...Timestamp, description: 'When it is deleted.' }),
}
export const Branch = Type.Object(branch)
export type Branch = Static<typeof Branch>

/** The only answer that contains the secrets of a branch. */
export const CreatedBranch = Type.Object({
  ...branch,
  anon_key: Type.String(),
  service_role_key: Type.String(),
  jwt_secret: Type.String(),
})
export type CreatedBranch = Static<typeof CreatedBranch>

export const NewBranch = Type.Object(
  {
    name: Type.String({
      minLength: 1,
      maxLength: 50,
      pattern: '\\S',
      description: 'a text of at most 50 characters that is not blank',
    }),
    from: Type.Optional(
      Nullable(
        Type.String({
          maxLength: 100,
          description: 'Only `current`, the present state of the parent, which is the default.',
        }),
      ),
    ),
    schema_only: Type.Optional(Nullable(Type.Boolean({ description: 'Without rows and files.' }))),
    expires_in: Type.Optional(
      Nullable(
        Type.String({
          pattern: '^[1-9][0-9]{0,5}[mhdw]$',
          description: 'a number and m, h, d or w, such as 12h or 7d',
        }),
      ),
    ),
    expires_at: Type.Optional(Nullable(Timestamp)),
  },
  { additionalProperties: false },
)
export type NewBranch = Static<typeof NewBranch>

export const BranchDiff = Type.Object({
  sql: Type.String({
    description: 'Turns the schema of the parent into that of the branch; empty if they are equal.',
  }),
  is_destructive: Type.Boolean({
    description: 'It has statements that drop something or can lose data, marked with `-- destructive`.',
  }),
})
export type BranchDiff = Static<typeof BranchDiff>

const byProject = Type.Object({ id: Id })
const bySlug = Type.Object({
  id: Id,
  slug: Type.String({
    minLength: 3,
    maxLength: 50,
    pattern: '^[a-z0-9-]+$',
    description: 'the slug of a branch',
  }),
})

export const branchesApi = {
  list: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/branches',
    scope: 'admin',
    summary: 'List the branches of a project, the newest first',
    params: byProject,
    query: PageQuery,
    reply: page('branches', Branch),
  },
  create: {
    plane: 'management',
    needsSpace: 'disk',
    method: 'POST',
    path: '/projects/{id}/branches',
    scope: 'admin',
    audit: 'branch.created',
    summary: 'Create a branch from the present state of a project; the list shows its progress',
    params: byProject,
    body: NewBranch,
    status: 201,
    reply: CreatedBranch,
  },
  read: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/branches/{slug}',
    scope: 'admin',
    summary: 'Read one branch',
    params: bySlug,
    reply: Branch,
  },
  remove: {
    plane: 'management',
    method: 'DELETE',
    path: '/projects/{id}/branches/{slug}',
    scope: 'admin',
    audit: 'branch.deleted',
    summary: 'Delete a branch with its database, roles and files, also while it is being created',
    params: bySlug,
    status: 204,
    reply: Empty,
  },
  diff: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/branches/{slug}/diff',
    scope: 'admin',
    summary:
      'Show how the schema of the branch differs from that of its parent, as a migration for the parent',
    params: bySlug,
    reply: BranchDiff,
  },
  reset: {
    plane: 'management',
    needsSpace: 'disk',
    method: 'POST',
    path: '/projects/{id}/branches/{slug}/reset',
    scope: 'admin',
    audit: 'branch.reset_started',
    summary: 'Give the branch the present state of its parent; its keys stay, its own changes are lost',
    params: bySlug,
    status: 202,
    reply: Branch,
  },
} as const satisfies Routes
