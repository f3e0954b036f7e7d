// A project with five hundred users of one team on a platform started as in production, and their channels.
import { setTimeout as sleep } from 'node:timers/promises'
import { signJwt } from '../apps/server/src/kernel/crypto/jwt.ts'
import { keyring } from '../apps/server/src/kernel/crypto/keys.ts'
import { withClient } from '../apps/server/src/kernel/postgres/database.ts'
import type { ServerAddress } from '../apps/server/src/kernel/postgres/server-address.ts'
import { createLogins } from '../apps/server/src/tenancy/logins.ts'
import { cpuMicros, familyCpuMicros } from './measure.ts'
import { loadCpuMicros, type Readers } from './realtime-load.ts'
import type { Reader } from './realtime-readers.ts'
import { engineIn, projectsAt, refOf, type Stage, type StagedServer, startMain } from './stage.ts'

export const subscriberCount = 500
const unlimited = 1_000_000_000
const tokenSeconds = 6 * 3600

export interface RealtimeStage {
  platform: StagedServer
  postmaster: number
  database: string
  /** The server's superuser. */
  superuser: ServerAddress
  /** The project's owner, for writing with SQL. */
  owner: ServerAddress
  keys: { anon: string; service: string }
  users: { id: string; token: string }[]
  restUrl: string
  broadcastUrl: string
  file(name: string): string
  /** A socket with this credential that joins this channel. */
  reader(credential: string, channel?: ChannelOptions): Reader
  /** CPU that each process has used so far. */
  cpu(readers: Readers): Cpu
}

export interface ChannelOptions {
  topic: string
  table?: string
  filter?: string
}

export interface Cpu {
  platform: number
  postgres: number
  load: number
}

export async function stageRealtime(
  stage: Stage,
  { nodeOptions = [], userCount = subscriberCount }: { nodeOptions?: string[]; userCount?: number } = {},
): Promise<RealtimeStage> {
  const dataDir = stage.dataDir('platform')
  const scripts = stage.dataDir('scripts')
  const platform = await startMain(stage, {}, dataDir, nodeOptions)
  const { address, adminToken, controlPlaneSecret, postmaster } = engineIn(dataDir)
  const quotas = {
    rate_limit_anon: unlimited,
    rate_limit_authenticated: unlimited,
    rate_limit_service_role: unlimited,
    realtime_max_clients: unlimited,
    realtime_max_events_per_second: unlimited,
  }
  const project = await projectsAt(platform.url, adminToken).create({ body: { name: 'bench', quotas } })
  const database = await refOf(address, project.id)
  const owner = createLogins(address, keyring(controlPlaneSecret)).address(database, 'owner')
  const users = Array.from({ length: userCount }, (_, index) => {
    const id = `00000000-0000-4000-8000-${index.toString().padStart(12, '0')}`
    const exp = Math.floor(Date.now() / 1000) + tokenSeconds
    const claims = {
      role: 'authenticated',
      aud: 'authenticated',
      sub: id,
      email: `user${index}@example.com`,
      exp,
    }
    return { id, token: signJwt(claims, project.jwt_secret) }
  })
  await withClient(owner, database, {}, async session => {
    for (const statement of tables(userCount)) await session.script(statement)
    await session.script('vacuum analyze')
  })
  return {
    platform,
    postmaster,
    database,
    superuser: address,
    owner,
    keys: { anon: project.anon_key, service: project.service_role_key },
    users,
    restUrl: `${platform.url}/v1/rest/${project.id}`,
    broadcastUrl: `${platform.url}/v1/${project.id}/realtime/v1/api/broadcast`,
    file: name => `${scripts}/${name}`,
    reader(credential, channel) {
      const path = `/v1/realtime/${project.id}/socket/websocket?token=${credential}&vsn=2.0.0`
      return {
        url: platform.url,
        path,
        ...(channel && { join: joinOf(channel), awaitsFeed: channel.table !== undefined }),
      }
    },
    cpu: readers => ({
      platform: cpuMicros(platform.pid),
      postgres: familyCpuMicros(postmaster),
      load: loadCpuMicros(readers),
    }),
  }
}

export function joinOf({ topic, table, filter }: ChannelOptions): string {
  const changes = table ? [{ event: '*', schema: 'public', table, ...(filter && { filter }) }] : []
  const config = {
    broadcast: { ack: false, self: false },
    presence: { key: '', enabled: false },
    postgres_changes: changes,
    private: false,
  }
  return JSON.stringify(['1', '1', `realtime:${topic}`, 'phx_join', { config }])
}

export const costPer = (before: Cpu, after: Cpu, deliveries: number) => ({
  platform_cpu_us: (after.platform - before.platform) / deliveries,
  postgres_cpu_us: (after.postgres - before.postgres) / deliveries,
  load_cpu_us: (after.load - before.load) / deliveries,
})

/** Waits until the platform and its Postgres are idle. */
export async function settled(stage: RealtimeStage, readers: Readers): Promise<void> {
  for (let tries = 0; tries < 50; tries++) {
    const before = stage.cpu(readers)
    await sleep(200)
    const after = stage.cpu(readers)
    if (after.platform + after.postgres - before.platform - before.postgres < 20_000) return
  }
}

/** A team sees its posts; a user sees only their own notes. */
const tables = (userCount: number) => [
  `create table members (team int, person uuid, primary key (team, person))`,
  'alter table members enable row level security',
  `create policy "own memberships" on members for select to authenticated using (person = (select auth.uid()))`,
  `insert into members
   select 1, ('00000000-0000-4000-8000-' || lpad(i::text, 12, '0'))::uuid from generate_series(0, ${userCount - 1}) i`,
  // Members of other teams.
  `insert into members select 2 + i % 100, gen_random_uuid() from generate_series(1, 10000) i`,
  `create table posts (
     id bigint generated by default as identity primary key, team int not null, author uuid, mark text, body text,
     created_at timestamptz not null default now())`,
  'alter table posts enable row level security',
  `create policy "members read" on posts for select to authenticated
   using (exists (select 1 from members m where m.team = posts.team and m.person = (select auth.uid())))`,
  `create policy "authors write" on posts for insert to authenticated with check (author = (select auth.uid()))`,
  `create table notes (
     id bigint generated by default as identity primary key, owner uuid, mark text, body text,
     created_at timestamptz not null default now())`,
  'alter table notes enable row level security',
  `create policy "owners read" on notes for select to authenticated using (owner = (select auth.uid()))`,
]
