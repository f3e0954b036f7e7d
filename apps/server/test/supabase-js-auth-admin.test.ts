// The unmodified client: administration with the service_role key.
import { adminTests } from './supabase-js/auth-admin.ts'
import { linkTests } from './supabase-js/auth-links.ts'
import { authSuite } from './supabase-js/auth-suite.ts'

authSuite('admin', [adminTests, linkTests])
