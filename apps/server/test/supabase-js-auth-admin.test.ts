// The unmodified client: the admin API with the service_role key.
import { adminTests } from './supabase-js/auth-admin.ts'
import { adminChangeTests } from './supabase-js/auth-admin-changes.ts'
import { inviteTests } from './supabase-js/auth-invites.ts'
import { linkTests } from './supabase-js/auth-links.ts'
import { authSuite } from './supabase-js/auth-suite.ts'

authSuite('admin', [adminTests, adminChangeTests, inviteTests, linkTests])
