// Branches of a project, for tests.
import assert from 'node:assert/strict'
import { type Branch, branchesApi, type CreatedBranch, type NewBranch } from '@plinth/contract/branches.ts'
import { type Client, client } from '@plinth/contract/client.ts'
import pg from 'pg'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { createLogins } from '#src/tenancy/logins.ts'
import { eventually } from './eventually.ts'
import type { TestPlatform } from './harness.ts'

/** No test depends on how fast the machine copies a database. */
export const anyHoldMs = 120_000

/** A session of the project's owner, as a program would have it. */
export async function ownerSession(platform: TestPlatform, projectId: string): Promise<pg.Client> {
  const ref = await platform.refOf(projectId)
  const logins = createLogins(platform.address, keyring(platform.controlPlaneSecret))
  const { host, port, user, password } = logins.address(ref, 'owner')
  const client = new pg.Client({ host, port, user, password, database: ref })
  client.on('error', () => {})
  await client.connect()
  return client
}

export interface TestBranches {
  api: Client<typeof branchesApi>
  /** Creates a branch and waits until it is active. */
  create(body: NewBranch): Promise<CreatedBranch>
  read(slug: string): Promise<Branch>
  /** Waits until nothing is being done with the branch. */
  ended(slug: string): Promise<Branch>
}

export function branchesOf(platform: TestPlatform, parentId: string): TestBranches {
  const api = client(branchesApi, { baseUrl: platform.url, token: platform.adminToken })
  const read = (slug: string) => api.read({ params: { id: parentId, slug } })
  async function ended(slug: string): Promise<Branch> {
    let found = await read(slug)
    await eventually(async () => {
      found = await read(slug)
      return found.progress === null
    }, `the task of the branch ${slug} has ended`)
    return found
  }
  return {
    api,
    read,
    ended,
    async create(body) {
      const created = await api.create({ params: { id: parentId }, body })
      assert.equal(created.status, 'creating')
      const { status, error } = await ended(created.slug)
      assert.deepEqual([status, error], ['active', null])
      return created
    },
  }
}
