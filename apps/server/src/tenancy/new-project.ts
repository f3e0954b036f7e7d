// The row of a new project: ref, keys, and a slug that no other project has.
import { randomToken } from '#src/kernel/crypto/keys.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import { Refusal } from '#src/kernel/errors.ts'
import {
  type CredentialColumn,
  credentialContext,
  newAnonKey,
  newJwtSecret,
  newRef,
  newServiceRoleKey,
} from './credentials.ts'
import type { NewProject } from './lifecycle-store.ts'

export type ProjectKeys = Record<CredentialColumn, string>

export interface ProjectPlan extends Pick<NewProject, 'id' | 'name' | 'settings' | 'quotas' | 'ownerId'> {
  /** If it is absent, one is made from the name. */
  slug: string | undefined
  description: string
}

/** Calls `insert`, which returns false if the slug is taken. A slug that was made from the name gets a random end then. */
export async function insertNewProject(
  sealer: Sealer,
  plan: ProjectPlan,
  insert: (row: NewProject) => Promise<boolean>,
): Promise<{ row: NewProject; keys: ProjectKeys }> {
  const slug = plan.slug ?? slugFrom(plan.name)
  const first = projectRow(sealer, plan, slug)
  if (await insert(first.row)) return first
  if (plan.slug !== undefined) throw slugTaken(slug)
  const second = projectRow(sealer, plan, `${slug.slice(0, 43)}-${randomEnd()}`)
  if (await insert(second.row)) return second
  throw slugTaken(second.row.slug)
}

const slugTaken = (slug: string) => new Refusal('slug_taken', `Another project has the slug "${slug}"`)

const randomEnd = () =>
  randomToken(4)
    .toLowerCase()
    .replace(/[^a-z0-9]/g, '0')

function projectRow(sealer: Sealer, plan: ProjectPlan, slug: string): { row: NewProject; keys: ProjectKeys } {
  const keys = {
    anon_key: newAnonKey(slug),
    service_role_key: newServiceRoleKey(slug),
    jwt_secret: newJwtSecret(),
  }
  const sealed = (column: CredentialColumn) => sealer.seal(keys[column], credentialContext(plan.id, column))
  return {
    keys,
    row: {
      ...plan,
      ref: newRef(),
      slug,
      anon_key: sealed('anon_key'),
      service_role_key: sealed('service_role_key'),
      jwt_secret: sealed('jwt_secret'),
    },
  }
}

/** Makes a slug from any name: 3 to 50 lowercase letters, digits and inner hyphens. */
export function slugFrom(name: string): string {
  const plain = plainSlugFrom(name)
  return plain.length >= shortestSlug ? plain : `project${plain && `-${plain}`}`
}

export const shortestSlug = 3

/** Of the letters and digits in the name, which may be too few. */
export const plainSlugFrom = (name: string): string =>
  name
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, 50)
    .replace(/^-+|-+$/g, '')
