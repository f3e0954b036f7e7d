// Policy of /api/v1: scope of the credential, free disk space, one audit entry for every write, format of errors.
import { setTimeout as sleep } from 'node:timers/promises'
import type { PlatformRole } from '@plinth/contract/platform.ts'
import type { ManagementRoute } from '@plinth/contract/route.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Failure, Plane } from '#src/kernel/http/plane.ts'
import type { RequestHead } from '#src/kernel/http/request.ts'
import { isUuid } from '#src/kernel/uuid.ts'
import type { SpaceCheck } from '#src/tenancy/space-check.ts'
import { type Actor, mayCall } from './actor.ts'
import type { Credentials } from './admit.ts'
import type { Audit } from './audit.ts'

export const managementRefusal = ({ message, code, fields }: Failure) => ({
  error: { message, code, ...fields },
})

export function managementPlane(
  credentials: Credentials,
  audit: Audit,
  spaceCheck: SpaceCheck,
): Plane<Actor> {
  async function admitted(route: ManagementRoute, { headers, params }: RequestHead): Promise<Actor> {
    const actor = await credentials.identify(headers.authorization, headers['apikey'])
    const projectId = isOfProject(route) ? params['id']?.toLowerCase() : undefined
    if (!mayCall(actor, route, projectId)) throw needs(route, projectId)
    const full = route.needsSpace && spaceCheck.refusal(route.needsSpace)
    if (full) throw full
    return actor
  }

  return {
    bodyLimit: 1024 * 1024,
    async admit(route, request) {
      const wanted = asked(route as ManagementRoute, request.headers.authorization)
      if (wanted.scope === 'none') return anonymous
      return wanted.neverRefuses ? orAnonymous(admitted(wanted, request)) : admitted(wanted, request)
    },
    identify: (actor, { path, params }) => ({
      project: path.startsWith('/api/v1/projects/') && isUuid(params['id'] ?? '') ? params['id'] : undefined,
      role: actor.kind,
    }),
    async done(route, actor, request, reply) {
      const isByPlane = 'audit' in route && !route.auditedByHandler
      const action = isByPlane ? route.audit : undefined
      if (action)
        await audit({
          actor: actor.kind === 'anonymous' ? (signedIn(reply) ?? actor) : actor,
          action,
          ...aim(route as ManagementRoute, request, reply),
          ip: request.ip,
          requestId: request.id,
        })
    },
    refuse: failure => ({ body: managementRefusal(failure), headers: {} }),
  }
}

const anonymous: Actor = { kind: 'anonymous' }
/** How long a route that never refuses waits for the control database. */
const credentialMs = 1000

const orAnonymous = (actor: Promise<Actor>): Promise<Actor> =>
  Promise.race([actor.catch(() => anonymous), sleep(credentialMs, anonymous, { ref: false })])

/** An open route that shows more with a credential validates it like any other route. */
const asked = (route: ManagementRoute, authorization: string | undefined): ManagementRoute =>
  route.fuller !== undefined && authorization !== undefined ? { ...route, scope: route.fuller } : route

const isOfProject = ({ path }: ManagementRoute) => path.startsWith('/projects/{id}')

const needs = ({ scope }: ManagementRoute, projectId: string | undefined) =>
  new Refusal(
    'insufficient_scope',
    `This needs ${scope} scope${projectId ? ' on this project' : ' on the platform'}`,
  )

/** The actor of a login is only known from its answer. */
function signedIn(reply: unknown): Actor | undefined {
  const user = (reply as { user?: { id: string; email: string; role: PlatformRole } } | undefined)?.user
  return user && { kind: 'user', ...user, memberships: new Map() }
}

/**
 * The target of the audit entry: the last parameter of the path, or the id of what was created. A route such as
 * `/projects/{id}/branches` has only the id of the project, which the entry has anyway.
 */
function aim(route: ManagementRoute, { params }: RequestHead, reply: unknown) {
  const { id: made = null, project_id: joined = null } = (reply ?? {}) as { id?: string; project_id?: string }
  // Postgres text cannot contain NUL, but a name from the request may.
  const named = Object.values(params).at(-1)?.replaceAll('\0', '\\0') ?? null
  const isOfList = isOfProject(route) && Object.keys(params).length === 1
  const projectId = isOfProject(route) ? (params['id'] ?? null) : route.path === '/projects' ? made : joined
  return { target: (isOfList ? made : null) ?? named ?? made ?? joined, projectId }
}
