import type { Static } from 'typebox'
import type { DataRoute, Routes } from './route.ts'
import { Empty, Id, Nullable, page, pageQuery, Timestamp } from './shapes.ts'
import { Type } from './type.ts'

const JobName = Type.String({
  minLength: 1,
  maxLength: 200,
  // `.` and `..` cannot be path segments.
  pattern: '^(?!\\.{1,2}$)[^\\u0000-\\u001f\\u007f]+$',
  description: 'a name of 1 to 200 characters on one line, and not . or ..',
})

export const JobDefinition = Type.Object(
  {
    name: JobName,
    schedule: Type.String({
      minLength: 1,
      maxLength: 200,
      description: 'Five cron fields in UTC, such as `0 3 * * mon`, or `N seconds` with N from 1 to 59.',
    }),
    command: Type.String({
      minLength: 1,
      maxLength: 100_000,
      description: 'SQL, run as the owner of the project in its database.',
    }),
  },
  { additionalProperties: false },
)
export type JobDefinition = Static<typeof JobDefinition>

export const Job = Type.Object({
  jobid: Type.Integer(),
  name: Type.String(),
  schedule: Type.String(),
  command: Type.String(),
  active: Type.Boolean(),
  created_at: Timestamp,
  updated_at: Timestamp,
  next_run_at: Nullable(Timestamp),
})
export type Job = Static<typeof Job>

export const runStatuses = ['running', 'succeeded', 'failed', 'skipped'] as const
export const Run = Type.Object({
  runid: Type.Integer(),
  jobid: Type.Integer(),
  name: Type.String(),
  status: Type.Enum(runStatuses),
  return_message: Nullable(
    Type.String({
      description: 'The command tag, such as `SELECT 1`, or the reason for a failed or skipped run.',
    }),
  ),
  command: Type.String({ description: 'The first 1000 characters of the command.' }),
  start_time: Timestamp,
  end_time: Nullable(Timestamp),
})
export type Run = Static<typeof Run>

const limit = (defaultLimit: number) =>
  Type.Optional(
    Type.Integer({ minimum: 0, default: defaultLimit, description: 'Runs to return; clamped to 100.' }),
  )

const ofProject = Type.Object({ project: Id })
const ofJob = Type.Object({ project: Id, name: JobName })
const managed = Type.Object({ id: Id })
const managedJob = Type.Object({ id: Id, name: JobName })

const call = { plane: 'data', allow: ['service_role'] } as const satisfies Partial<DataRoute>

export const cronApi = {
  schedule: {
    ...call,
    needsSpace: 'disk',
    method: 'POST',
    path: '/cron/{project}/jobs',
    status: 201,
    summary: 'Schedule a job; replaces a job of the same name',
    params: ofProject,
    body: JobDefinition,
    reply: Job,
  },
  list: {
    ...call,
    method: 'GET',
    path: '/cron/{project}/jobs',
    summary: 'List the jobs of the project',
    params: ofProject,
    reply: Type.Array(Job),
  },
  unschedule: {
    ...call,
    method: 'DELETE',
    path: '/cron/{project}/jobs/{name}',
    status: 204,
    summary: 'Remove a job and its history; a running run is not stopped',
    params: ofJob,
    reply: Empty,
  },
  runs: {
    ...call,
    method: 'GET',
    path: '/cron/{project}/jobs/{name}/runs',
    summary: 'List recent runs of a job, newest first',
    params: ofJob,
    query: Type.Object({ limit: limit(100) }),
    reply: Type.Array(Run),
  },
} as const satisfies Routes

export const cronManagementApi = {
  list: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/cron/jobs',
    scope: 'read',
    summary: 'List the scheduled jobs of a project',
    params: managed,
    query: Type.Object(pageQuery),
    reply: page('jobs', Job),
  },
  runs: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/cron/jobs/{name}/runs',
    scope: 'read',
    summary: 'List recent runs of a job, newest first',
    params: managedJob,
    query: Type.Object({ limit: limit(20), offset: pageQuery.offset }),
    reply: page('runs', Run),
  },
} as const satisfies Routes
