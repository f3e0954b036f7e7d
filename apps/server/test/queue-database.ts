// A project for queue tests in the database, with direct connections of its owner and of other roles.
import { Client, type QueryResultRow } from 'pg'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { createLogins } from '#src/tenancy/logins.ts'
import type { TestPlatform } from './harness.ts'

type CallerRole = 'anon' | 'authenticated' | 'service_role'

export interface QueueProject {
  id: string
  ref: string
  anonKey: string
  serviceRoleKey: string
  jwtSecret: string
  /** The owner's connection string. */
  direct: string
  /** Runs one statement as the owner, on a connection that stays open until `close`. */
  rows<Row extends QueryResultRow = any>(statement: string, values?: unknown[]): Promise<Row[]>
  /** The first value of every row. */
  values<T = any>(statement: string, values?: unknown[]): Promise<T[]>
  /** The first value of the first row. */
  value<T = any>(statement: string, values?: unknown[]): Promise<T>
  /** Creates a queue with these messages and returns its name. */
  queue(...messages: unknown[]): Promise<string>
  /** Opens another connection as the owner. */
  connect(): Promise<Client>
  /** Opens a connection with this role. */
  connectAs(role: CallerRole): Promise<Client>
  /** Runs one statement with this role. */
  as<Row extends QueryResultRow = any>(role: CallerRole, statement: string): Promise<Row[]>
  close(): Promise<void>
}

export async function queueProject(platform: TestPlatform): Promise<QueueProject> {
  const created = await platform.createProject()
  const { id, anon_key: anonKey, service_role_key: serviceRoleKey, jwt_secret: jwtSecret } = created
  const ref = await platform.refOf(id)
  const { body } = await platform.call('GET', `/api/v1/projects/${id}/pooler`, { token: platform.adminToken })
  const direct: string = body.direct
  const logins = createLogins(platform.address, keyring(platform.controlPlaneSecret))
  const open: Client[] = []

  async function opened(client: Client): Promise<Client> {
    // Some tests terminate the session.
    client.on('error', () => {})
    await client.connect()
    open.push(client)
    return client
  }
  const connect = () => opened(new Client({ connectionString: direct }))
  const connectAs = (role: CallerRole) => {
    const { host, port, user, password } = logins.address(ref, role === 'service_role' ? 'svc' : 'api')
    return opened(new Client({ host, port, user, password, database: ref, options: `-c role=${role}` }))
  }

  let made = 0
  const own = await connect()
  const rows = async (statement: string, values?: unknown[]) => (await own.query(statement, values)).rows
  const values = async (statement: string, given?: unknown[]) =>
    (await rows(statement, given)).map(row => Object.values(row)[0] as any)
  return {
    id,
    ref,
    anonKey,
    serviceRoleKey,
    jwtSecret,
    direct,
    rows,
    values,
    value: async (statement, given) => (await values(statement, given))[0],
    async queue(...messages) {
      const name = `made_${++made}`
      await rows('select pgmq.create($1)', [name])
      const texts = messages.map(message => JSON.stringify(message))
      await rows('select pgmq.send_batch($1, $2::jsonb[])', [name, texts])
      return name
    },
    connect,
    connectAs,
    async as(role, statement) {
      const client = await connectAs(role)
      try {
        return (await client.query(statement)).rows
      } finally {
        await client.end()
      }
    },
    async close() {
      await Promise.all(open.map(client => client.end().catch(() => {})))
    },
  }
}
