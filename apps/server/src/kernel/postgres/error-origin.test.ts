import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DatabaseError } from './database-error.ts'
import { isInTenantCode, isOfTenant } from './error-origin.ts'

const raised = (code: string, where = '') => new DatabaseError({ code, message: 'x', where })

test('errors: a wrong statement of the platform is not attributed to the tenant', () => {
  assert.equal(isOfTenant(raised('42P01')), false)
  assert.equal(isOfTenant(raised('42P01', 'PL/pgSQL function auth.refresh_session(uuid) line 5')), false)
  assert.equal(isOfTenant(raised('42P01', 'PL/pgSQL function public.t() line 1 at PERFORM')), true)
  assert.equal(isOfTenant(raised('42501', 'SQL statement "DELETE FROM ONLY public.posts"')), true)
  assert.equal(isOfTenant(raised('XX000')), true)
})

test('errors: a lock timeout is not attributed to code of the tenant', () => {
  assert.equal(isInTenantCode({ where: 'while locking tuple (0,1) in relation "users"' }), false)
  assert.equal(
    isInTenantCode({ where: 'SQL statement "SELECT 1 WHERE id OPERATOR(pg_catalog.=) $1"' }),
    false,
  )
  assert.equal(isInTenantCode({ where: 'SQL function "slow" statement 1' }), true)
  assert.equal(
    isInTenantCode({ where: 'SQL statement "select pg_sleep(9)"\nPL/pgSQL function "T".t() line 3' }),
    true,
  )
})
