// The services that a project's own servers call with its service_role key, in both shapes of the URL.
import assert from 'node:assert/strict'
import { addresses } from '@plinth/contract/openapi.ts'
import type { Route, Routes } from '@plinth/contract/route.ts'
import { type CreatedProject, createProject, someId, unlimited, userJwt } from './people.ts'
import type { Target } from './target.ts'
import { until } from './until.ts'
import { assertDataError, type CallOptions, type Reply } from './wire.ts'

export type Service = 'cache' | 'queue' | 'cron'
export type Shape = 'native' | 'alias'
export const shapes = ['native', 'alias'] as const satisfies Shape[]

export interface ServiceApi {
  project: CreatedProject
  /** The path after the service, percent-encoded by the caller. */
  ask(method: string, path: string, body?: unknown, shape?: Shape): Promise<Reply>
  get(path: string): Promise<Reply>
  post(path: string, body?: unknown): Promise<Reply>
  delete(path: string): Promise<Reply>
}

export const rootOf = (service: Service, id: string, shape: Shape = 'native') =>
  shape === 'alias' ? `/v1/${id}/${service}/v1` : `/v1/${service}/${id}`

export function serviceOf(target: Target, project: CreatedProject, service: Service): ServiceApi {
  const ask = (method: string, path: string, body?: unknown, shape?: Shape) =>
    target.call(method, `${rootOf(service, project.id, shape)}/${path}`, {
      token: project.service_role_key,
      body,
    })
  return {
    project,
    ask,
    get: path => ask('GET', path),
    post: (path, body) => ask('POST', path, body),
    delete: path => ask('DELETE', path),
  }
}

export const serviceProject = async (target: Target, service: Service): Promise<ServiceApi> =>
  serviceOf(target, await createProject(target, { quotas: unlimited }), service)

/** The body of a response, which must have this status. */
export function bodyOf(reply: Reply, status = 200): any {
  assert.equal(reply.status, status, `${reply.status} ${reply.text}`)
  return reply.body
}

const pathsOf = (route: Route, id: string) =>
  addresses(route).map(address => address.replace('{project}', id).replace(/\{\w+\}/g, 'nothing'))

/** 2 §5: on every route and in both shapes, only the service_role key is accepted. */
export async function assertServiceRoleOnly(target: Target, routes: Routes): Promise<void> {
  const project = await createProject(target, { quotas: unlimited })
  const other = await createProject(target, { quotas: unlimited })
  const { anon_key, service_role_key } = project
  const user = userJwt(project)
  const refused: [string, 'unauthorized' | 'role_not_allowed', CallOptions][] = [
    ['nobody', 'unauthorized', {}],
    ['the key of another project', 'unauthorized', { token: other.service_role_key }],
    ['the key of another project in apikey', 'unauthorized', { apikey: other.service_role_key }],
    ['the admin token', 'unauthorized', { token: target.adminToken }],
    ['a user without a key', 'unauthorized', { token: user }],
    ['a wrong Bearer beside the key', 'unauthorized', { apikey: service_role_key, token: 'wrong' }],
    ['anon', 'role_not_allowed', { token: anon_key }],
    ['anon in apikey', 'role_not_allowed', { apikey: anon_key }],
    ['a user', 'role_not_allowed', { apikey: anon_key, token: user }],
    ['a user beside the service_role key', 'role_not_allowed', { apikey: service_role_key, token: user }],
  ]
  const admitted: [string, CallOptions][] = [
    ['the key as Bearer', { token: service_role_key }],
    ['the key in apikey', { apikey: service_role_key }],
    ['the key as Bearer beside the anon key', { apikey: anon_key, token: service_role_key }],
  ]
  for (const route of Object.values(routes)) {
    const body = route.body ? {} : undefined
    for (const path of pathsOf(route, project.id)) {
      for (const [who, code, options] of refused) {
        const reply = await target.call(route.method, path, { ...options, body })
        assert.equal(reply.body?.code, code, `${who}: ${route.method} ${path}: ${reply.status} ${reply.text}`)
        assertDataError(reply, code)
      }
      for (const [who, options] of admitted) {
        const { status, text } = await target.call(route.method, path, { ...options, body })
        const isAdmitted = status < 500 && ![401, 403].includes(status)
        assert.ok(isAdmitted, `${who}: ${route.method} ${path}: ${status} ${text}`)
      }
    }
    for (const path of pathsOf(route, someId))
      assertDataError(
        await target.call(route.method, path, { token: service_role_key, body }),
        'unauthorized',
      )
  }
}

/** 1 §1: a suspended project returns 403 on every route, and works again after it is resumed. */
export async function assertSuspendable(target: Target, routes: Routes): Promise<void> {
  const project = await createProject(target, { quotas: unlimited })
  const token = project.service_role_key
  const calls = Object.values(routes).flatMap(route =>
    pathsOf(route, project.id).map(
      path => () => target.call(route.method, path, { token, ...(route.body && { body: {} }) }),
    ),
  )
  const statuses = () => Promise.all(calls.map(async call => (await call()).status))
  const before = await statuses()
  assert.equal((await target.manage('POST', `/projects/${project.id}/suspend`)).status, 200)
  await until('the suspension counts', async () => (await calls[0]!()).status === 403)
  for (const call of calls) assertDataError(await call(), 'project_suspended')
  assert.equal((await target.manage('POST', `/projects/${project.id}/resume`)).status, 200)
  await until('the resumption counts', async () => (await calls[0]!()).status !== 403)
  assert.deepEqual(await statuses(), before)
}
