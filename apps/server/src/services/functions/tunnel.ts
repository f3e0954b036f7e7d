// Who may open a WebSocket to a function.
import type { Role } from '@plinth/contract/route.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { SocketRequest, TunnelMount } from '#src/kernel/http/sockets.ts'
import { callerOfCredential, callerOfSocket, credentialOfSocket, projectIn } from '#src/planes/data/admit.ts'
import type { Meter } from '#src/planes/data/meter.ts'
import { dataRefusal, type Revocations } from '#src/planes/data/plane.ts'
import { sessionEnded, Unauthorized, unknownKey } from '#src/planes/data/unauthorized.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { Directory, Tenant } from '#src/tenancy/directory.ts'
import type { OpenSocket } from './call.ts'
import type { FindCallable } from './callable.ts'
import { userNeeded } from './plane.ts'

interface TunnelDeps extends Revocations {
  directory: Directory
  findCallable: FindCallable
  meter: Meter
  openSocket: OpenSocket
}

const addresses = [
  '/v1/functions/{project}/{name}',
  '/v1/functions/{project}/{name}/{path}',
  '/v1/{project}/functions/v1/{name}',
  '/v1/{project}/functions/v1/{name}/{path}',
]
const noHeader = () => {}

export function functionsTunnel({
  directory,
  findCallable,
  meter,
  openSocket,
  isRevoked,
}: TunnelDeps): TunnelMount<Caller> {
  /** Browsers cannot set headers here, so the key and the token may be in the query, as for realtime. */
  async function callerWithCredential(tenant: Tenant, request: SocketRequest): Promise<Caller> {
    const { caller } = callerOfSocket(tenant, request.query, request.headers)
    const key = request.query.get('apikey') ?? request.headers['apikey']
    const hasKey = typeof key === 'string' && callerOfCredential(tenant, key)?.caller.userId === ''
    if (caller.role === 'authenticated' && !hasKey) throw new Unauthorized({ kind: 'token without key' })
    if (caller.userId !== '' && (await isRevoked(caller))) throw sessionEnded()
    return caller
  }

  async function admit(request: SocketRequest): Promise<Caller> {
    const id = projectIn({ ...request, method: 'GET', signal: never } as Parameters<typeof projectIn>[0])
    const tenant = id === undefined ? undefined : await directory.find(id)
    if (!tenant) throw unknownKey()
    const { functions } = await findCallable(tenant)
    const found = functions.get(request.params['name'] ?? '')
    const needsUser = found?.verify_jwt !== false
    if (!needsUser) meter.countAddress(request.ip, noHeader)
    const hasCredential = credentialOfSocket(request.query, request.headers) !== ''
    const caller = needsUser
      ? await callerWithCredential(tenant, request)
      : hasCredential
        ? await callerWithCredential(tenant, request).catch(() => anonOf(tenant))
        : anonOf(tenant)
    if (needsUser) meter.countCaller(tenant, caller.role, noHeader)
    if (tenant.status === 'suspended') throw new Refusal('project_suspended', 'This project is suspended')
    if (found && needsUser && caller.role === 'anon') throw userNeeded()
    return caller
  }

  return {
    addresses,
    admit,
    identify: ({ tenant, role }) => ({ project: tenant.id, role }),
    refuse: dataRefusal,
    open: (caller, request, socket, head) =>
      openSocket(request.params['name'] ?? '', caller, request, socket, head),
  }
}

const never = new AbortController().signal
const anonOf = (tenant: Tenant): Caller => ({
  tenant,
  role: 'anon' satisfies Role,
  claims: '{"role":"anon"}',
  userId: '',
  sessionId: '',
})
